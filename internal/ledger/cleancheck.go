package ledger

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	words = regexp.MustCompile(`[a-z_][a-z0-9_]*`)
	// changing are the words of which one makes a statement change rows.
	changing = []string{"delete", "update", "insert", "merge"}
)

// CheckCleanup says what is wrong with the text of a statement that cleans up; nil where
// nothing is that can be seen without a database. What stands in texts, quoted names and
// comments does not count.
func CheckCleanup(statement string) error {
	code := strings.TrimRight(strings.TrimSpace(codeOf(statement)), "; \t\r\n")
	first := words.FindString(strings.ToLower(code))
	switch {
	case code == "":
		return errors.New("it must be given, such as DELETE FROM generated WHERE operation_key = $1")
	case strings.Contains(code, ";"):
		return errors.New("it must be one statement")
	case first != "with" && !slices.Contains(changing, first):
		return fmt.Errorf("it begins with %s: it must be a DELETE, UPDATE, INSERT or MERGE, or WITH and one of them", strings.ToUpper(first))
	case first == "with" && !slices.ContainsFunc(words.FindAllString(strings.ToLower(code), -1), func(w string) bool { return slices.Contains(changing, w) }):
		return errors.New("it changes nothing: it must have a DELETE, UPDATE, INSERT or MERGE")
	case !firstParameter.MatchString(code):
		return errors.New("it must name its parameter, $1, which is the operation key, or every cleanup would remove the same rows")
	case secondParameter.MatchString(code):
		return errors.New("it has one parameter, $1, which is the operation key")
	}
	return nil
}

// codeOf is the statement without comments, and with nothing in its texts and quoted
// names.
func codeOf(sql string) string {
	var code strings.Builder
	for sql != "" {
		n, is := 1, sql[:1]
		switch tag := dollarTag.FindString(sql); {
		case strings.HasPrefix(sql, "--"):
			n, is = lengthTo(sql, 2, "\n"), " "
		case strings.HasPrefix(sql, "/*"):
			n, is = comment(sql), " "
		case sql[0] == '\'':
			n, is = quoted(sql, escapedBefore.MatchString(code.String())), "''"
		case sql[0] == '"':
			n, is = quoted(sql, false), `""`
		case sql[0] == '$' && nameBefore.MatchString(code.String()):
			is = "_" // it is part of a name
		case tag != "":
			n, is = lengthTo(sql, len(tag), tag), "''"
		}
		code.WriteString(is)
		sql = sql[n:]
	}
	return code.String()
}

var (
	dollarTag     = regexp.MustCompile(`^\$(?:[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*)?\$`)
	escapedBefore = regexp.MustCompile(`(?:^|[^A-Za-z0-9_$])[eE]$`)
	nameBefore    = regexp.MustCompile(`[A-Za-z0-9_$\x80-\xff]$`)
)

// lengthTo is how long the part is that ends with end, from what follows the first n.
func lengthTo(sql string, n int, end string) int {
	if i := strings.Index(sql[n:], end); i >= 0 {
		return n + i + len(end)
	}
	return len(sql)
}

// comment is how long a comment is; they nest.
func comment(sql string) int {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(sql)
}

// quoted is how long a text or name is that begins with its quote; a doubled quote is one
// of the text.
func quoted(sql string, escapes bool) int {
	quote := sql[0]
	for i := 1; i < len(sql); i++ {
		switch {
		case escapes && sql[i] == '\\':
			i++
		case sql[i] == quote && i+1 < len(sql) && sql[i+1] == quote:
			i++
		case sql[i] == quote:
			return i + 1
		}
	}
	return len(sql)
}
