package importer

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"duly.dev/duly/pkg/job"
)

// csvSource reads the rows of a CSV file: comma-separated, quoted with '"' where
// needed, '""' for a quote inside quotes, lines inside quotes allowed.
//
// A quote that is never closed must not swallow what follows. So a row that goes
// over several lines is tried as a whole, and where it turns out to be wrong, only
// its first line is refused and reading goes on with the second.
type csvSource struct {
	lines   *lines
	ahead   []line // read, and not yet taken
	columns columns
}

// newCSV reads the header. Its error joins everything that is wrong with it.
func newCSV(l *lines) (*csvSource, error) {
	s := &csvSource{lines: l}
	first, err := s.peek(0)
	for err == nil && first.blank() {
		s.take(1)
		first, err = s.peek(0)
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file is empty: it must begin with a header that names its columns")
	case err != nil:
		return nil, err
	}
	names, wrong := s.row()
	if wrong != nil {
		return nil, fmt.Errorf("the header: %w", wrong)
	}
	s.columns, err = newColumns(names)
	return s, err
}

func (s *csvSource) next() (record, error) {
	for {
		first, err := s.peek(0)
		if err != nil {
			return record{}, err
		}
		if first.blank() {
			s.take(1)
			continue
		}
		fields, wrong := s.row()
		if wrong == nil {
			return s.columns.record(first.number, fields), nil
		}
		return record{line: first.number, refused: []*job.Refusal{wrong}}, nil
	}
}

// row splits the next row into its fields and takes its lines; of a row that is wrong
// it takes the first.
func (s *csvSource) row() ([]string, *job.Refusal) {
	var p fieldParser
	for n := 0; ; n++ {
		l, err := s.peek(n)
		switch {
		case err != nil: // the file ends inside quotes
			return s.broken(p.quote)
		case l.tooLong && n == 0:
			s.take(1)
			return nil, job.Refuse(wholeRow, "", job.RuleTooLong, "at most "+strconv.Itoa(s.lines.max)+" bytes")
		case l.tooLong || p.size+len(l.text) > s.lines.max:
			return s.broken(p.quote)
		}
		switch p.feed(l.text) {
		case rowBroken:
			return s.broken(p.column)
		case rowOpen:
			continue
		case rowComplete:
		}
		want := len(s.columns.names)
		switch {
		case n > 0 && !s.columns.plausible(p.fields): // quotes that belong to two rows
			return s.broken(p.quote)
		case want > 0 && len(p.fields) != want:
			s.take(1)
			return nil, job.Refuse(wholeRow, "", job.RuleColumns, fmt.Sprintf("it has %d, the header %d", len(p.fields), want))
		}
		s.take(n + 1)
		return p.fields, nil
	}
}

// broken refuses the first line for a quote in a column, counted from 1.
func (s *csvSource) broken(column int) ([]string, *job.Refusal) {
	s.take(1)
	return nil, job.Refuse(wholeRow, "", job.RuleQuoting, "at column "+strconv.Itoa(column))
}

// peek returns the n-th line that was not taken yet.
func (s *csvSource) peek(n int) (line, error) {
	for len(s.ahead) <= n {
		l, err := s.lines.next()
		if err != nil {
			return line{}, err
		}
		s.ahead = append(s.ahead, l)
	}
	return s.ahead[n], nil
}

func (s *csvSource) take(n int) { s.ahead = s.ahead[:copy(s.ahead, s.ahead[n:])] }

// fieldParser splits a row into fields, line by line.
type fieldParser struct {
	fields []string
	field  strings.Builder
	// quoted: the row goes on inside quotes.
	quoted bool
	// quote is where the last quotes opened, column where the row broke, from 1.
	quote, column int
	size          int
}

type rowState int

const (
	rowComplete rowState = iota
	// rowOpen: the line ended inside quotes.
	rowOpen
	rowBroken
)

// feed takes the next line of the row.
func (p *fieldParser) feed(text []byte) rowState {
	i := 0
	if p.quoted {
		p.field.WriteByte('\n')
	}
	p.size += len(text) + 1
	for {
		var state rowState
		if i, state = p.readField(text, i); state != rowComplete {
			return state
		}
		p.fields = append(p.fields, p.field.String())
		p.field.Reset()
		if i == len(text) {
			return rowComplete
		}
		i++ // the comma
	}
}

// readField reads a field from i to the comma or the end of the line behind it.
func (p *fieldParser) readField(text []byte, i int) (int, rowState) {
	if !p.quoted && i < len(text) && text[i] == '"' {
		p.quoted, p.quote = true, i+1
		i++
	}
	if p.quoted {
		return p.readQuoted(text, i)
	}
	for ; i < len(text) && text[i] != ','; i++ {
		if text[i] == '"' {
			p.column = i + 1
			return i, rowBroken
		}
		p.field.WriteByte(text[i])
	}
	return i, rowComplete
}

func (p *fieldParser) readQuoted(text []byte, i int) (int, rowState) {
	for ; i < len(text); i++ {
		switch {
		case text[i] != '"':
			p.field.WriteByte(text[i])
		case i+1 < len(text) && text[i+1] == '"':
			p.field.WriteByte('"')
			i++
		case i+1 < len(text) && text[i+1] != ',':
			p.column = i + 1
			return i, rowBroken
		default:
			p.quoted = false
			return i + 1, rowComplete
		}
	}
	return i, rowOpen
}
