package importer

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// line is one line of a file, without its end.
type line struct {
	// number counts from 1.
	number int
	text   []byte
	// tooLong: it had more bytes than may be; text is empty.
	tooLong bool
}

// blank reports whether the line holds nothing but white space.
func (l line) blank() bool { return !l.tooLong && len(bytes.TrimSpace(l.text)) == 0 }

// lines reads lines of at most max bytes, however long those in the file are.
type lines struct {
	r      *bufio.Reader
	max    int
	number int
	// read is how many bytes were taken from the file.
	read int64
}

func newLines(r io.Reader, max int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), max: max}
}

// ErrEncoding: the file is not text in UTF-8.
var ErrEncoding = errors.New("the file is UTF-16: save it as UTF-8")

// next returns the next line; io.EOF after the last. The last may lack its end.
func (l *lines) next() (line, error) {
	current := line{number: l.number + 1}
	for {
		part, err := l.r.ReadSlice('\n')
		l.read += int64(len(part))
		if len(current.text)+len(part) > l.max {
			current.tooLong, current.text = true, nil
		}
		if !current.tooLong {
			current.text = append(current.text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(current.text) > 0 || current.tooLong):
		case err != nil:
			return line{}, err
		}
		l.number++
		current.text = bytes.TrimSuffix(current.text, []byte("\n"))
		current.text = bytes.TrimSuffix(current.text, []byte("\r"))
		return l.unmarked(current)
	}
}

// unmarked takes the byte order mark from the first line, which some programs write.
func (l *lines) unmarked(first line) (line, error) {
	if first.number != 1 {
		return first, nil
	}
	if bytes.HasPrefix(first.text, []byte("\xff\xfe")) || bytes.HasPrefix(first.text, []byte("\xfe\xff")) {
		return line{}, ErrEncoding
	}
	first.text = bytes.TrimPrefix(first.text, []byte("\xef\xbb\xbf"))
	return first, nil
}
