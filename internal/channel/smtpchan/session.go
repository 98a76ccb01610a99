package smtpchan

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-sasl"

	"duly.dev/duly/internal/classify"
	"duly.dev/duly/pkg/job"
)

const (
	authPlain = "plain"
	authLogin = "login"

	// maxLine is the longest line of a reply, in bytes; maxLines the most lines.
	maxLine, maxLines = 4 << 10, 128
)

// failure is why a session could not go on.
type failure struct {
	stage classify.Stage
	// reply is the server's, if it gave one that can be read.
	reply *classify.Reply
	// code is set where the channel itself judged that the session is no use.
	code job.Code
	err  error
}

// Error says at which command the session ended and why.
func (f *failure) Error() string {
	if f.reply != nil {
		return f.stage.String() + " was answered with " + f.reply.String()
	}
	return f.stage.String() + ": " + f.err.Error()
}

// Unwrap returns the error of the connection, if there was one.
func (f *failure) Unwrap() error { return f.err }

// session is one connection to the mail server, greeted, secured and authenticated.
type session struct {
	raw  net.Conn // carries the deadlines
	conn net.Conn // raw, or TLS over it
	r    *bufio.Reader
	// extensions are what the server offered, by upper-case keyword.
	extensions map[string]string
	// expire ends the session while it is unused.
	expire *time.Timer
}

func newSession(raw net.Conn) *session {
	s := &session{raw: raw}
	s.use(raw)
	return s
}

func (s *session) use(c net.Conn) {
	s.conn = c
	s.r = bufio.NewReaderSize(c, maxLine)
}

// bound lets ctx end what the session is doing. The function that it returns undoes
// this and reports whether ctx had not ended yet.
func (s *session) bound(ctx context.Context) (release func() bool) {
	deadline, _ := ctx.Deadline()
	_ = s.raw.SetDeadline(deadline)
	return context.AfterFunc(ctx, func() { _ = s.raw.SetDeadline(time.Unix(1, 0)) })
}

// abort drops the connection: a mail whose final dot was not written is forgotten by
// the server.
func (s *session) abort() { _ = s.raw.Close() }

// quit takes leave and drops the connection.
func (s *session) quit() {
	_ = s.raw.SetDeadline(time.Now().Add(time.Second))
	_, _ = s.conn.Write([]byte("QUIT\r\n"))
	s.abort()
}

// greet reads the greeting and introduces us.
func (s *session) greet(name string) error {
	if _, err := s.await(classify.StageSession, 2); err != nil {
		return err
	}
	return s.hello(name)
}

func (s *session) hello(name string) error {
	reply, err := s.command(classify.StageSession, 2, "EHLO "+name)
	if err != nil {
		return err
	}
	s.extensions = map[string]string{}
	for i, line := range strings.Split(reply.Text, "\n") {
		if i == 0 {
			continue
		}
		keyword, parameters, _ := strings.Cut(line, " ")
		s.extensions[strings.ToUpper(keyword)] = parameters
	}
	return nil
}

// startTLS secures a session that began in the clear. What the server sent in the
// clear behind its answer is not trusted.
func (s *session) startTLS(ctx context.Context, cfg *tls.Config, name string) error {
	if _, ok := s.extensions["STARTTLS"]; !ok {
		return &failure{stage: classify.StageTLS, code: job.CodeTLS, err: errors.New("the server does not offer it")}
	}
	if _, err := s.command(classify.StageTLS, 2, "STARTTLS"); err != nil {
		return err
	}
	if s.r.Buffered() > 0 {
		return &failure{stage: classify.StageTLS, code: job.CodeTLS, err: errors.New("the server went on in the clear")}
	}
	if err := s.secure(ctx, cfg); err != nil {
		return err
	}
	return s.hello(name)
}

func (s *session) secure(ctx context.Context, cfg *tls.Config) error {
	c := tls.Client(s.raw, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		return &failure{stage: classify.StageTLS, code: job.CodeTLS, err: err}
	}
	s.use(c)
	return nil
}

// credentials are what a session authenticates with.
type credentials struct{ mechanism, username, password string }

// choose returns the client of the configured mechanism, or of the better one that
// the server offers.
func (c *credentials) choose(offered string) (sasl.Client, error) {
	mechanisms := strings.Fields(strings.ToLower(offered))
	for _, m := range []string{authPlain, authLogin} {
		if c.mechanism != "" && c.mechanism != m {
			continue
		}
		for _, o := range mechanisms {
			if o != m {
				continue
			}
			if m == authPlain {
				return sasl.NewPlainClient("", c.username, c.password), nil
			}
			return sasl.NewLoginClient(c.username, c.password), nil
		}
	}
	return nil, errors.New("the server does not offer the mechanism")
}

func (s *session) authenticate(c *credentials) error {
	client, err := c.choose(s.extensions["AUTH"])
	if err != nil {
		return &failure{stage: classify.StageAuth, code: job.CodeUnauthorized, err: err}
	}
	mechanism, first, err := client.Start()
	if err != nil {
		return &failure{stage: classify.StageAuth, code: job.CodeUnauthorized, err: err}
	}
	line := "AUTH " + mechanism
	if first != nil {
		line += " " + encode(first)
	}
	for {
		reply, err := s.command(classify.StageAuth, 0, line)
		if err != nil {
			return err
		}
		switch reply.Code / 100 {
		case 2:
			return nil
		case 3:
		default:
			return &failure{stage: classify.StageAuth, reply: &reply}
		}
		answer, err := answerTo(client, reply)
		if err != nil {
			return &failure{stage: classify.StageAuth, code: job.CodeUnauthorized, err: err}
		}
		line = encode(answer)
	}
}

func answerTo(client sasl.Client, reply classify.Reply) ([]byte, error) {
	challenge, err := base64.StdEncoding.DecodeString(reply.Text)
	if err != nil {
		return nil, errors.New("the server's challenge is not base64")
	}
	return client.Next(challenge)
}

func encode(b []byte) string {
	if len(b) == 0 {
		return "="
	}
	return base64.StdEncoding.EncodeToString(b)
}

// reset makes sure that the session lives and has no mail begun.
func (s *session) reset() error {
	_, err := s.command(classify.StageSession, 2, "RSET")
	return err
}

// envelope says whom the mail is from and for, and asks to send it. When it returns
// nil, the server waits for the content.
func (s *session) envelope(m message) error {
	if _, err := s.command(classify.StageMail, 2, s.mailCommand(m)); err != nil {
		return err
	}
	if _, err := s.command(classify.StageRcpt, 2, "RCPT TO:<"+m.to.String()+">"); err != nil {
		return err
	}
	_, err := s.command(classify.StageData, 3, "DATA")
	return err
}

func (s *session) mailCommand(m message) string {
	line := "MAIL FROM:<" + m.from.String() + ">"
	if m.to.utf8 {
		line += " BODY=8BITMIME SMTPUTF8"
	}
	if _, ok := s.extensions["SIZE"]; ok {
		line += " SIZE=" + strconv.Itoa(len(m.body))
	}
	return line
}

// unfit says why this server cannot take the mail, or nothing.
func (s *session) unfit(m message) (job.Code, string) {
	if _, ok := s.extensions["SMTPUTF8"]; m.to.utf8 && !ok {
		return job.CodeDestinationInvalid, "the mail server takes no address that is not ASCII before the @ (SMTPUTF8)"
	}
	if max, err := strconv.Atoi(s.extensions["SIZE"]); err == nil && max > 0 && len(m.body) > max {
		return job.CodeRejected, fmt.Sprintf("the mail has %d bytes, the mail server takes %d", len(m.body), max)
	}
	return job.CodeNone, ""
}

// command sends one line and awaits a reply whose first digit is want; 0 takes any.
func (s *session) command(stage classify.Stage, want int, line string) (classify.Reply, error) {
	if _, err := s.conn.Write([]byte(line + "\r\n")); err != nil {
		return classify.Reply{}, &failure{stage: stage, err: err}
	}
	return s.await(stage, want)
}

// await reads one reply whose first digit is want; 0 takes any.
func (s *session) await(stage classify.Stage, want int) (classify.Reply, error) {
	reply, err := s.read()
	if err != nil {
		return classify.Reply{}, &failure{stage: stage, err: err}
	}
	if want != 0 && reply.Code/100 != want {
		return classify.Reply{}, &failure{stage: stage, reply: &reply}
	}
	return reply, nil
}

// read reads one reply, of bounded size.
func (s *session) read() (classify.Reply, error) {
	var first int
	var lines []string
	for range maxLines {
		raw, err := s.r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return classify.Reply{}, classify.ErrReply
		}
		if err != nil {
			return classify.Reply{}, err
		}
		code, more, text, err := classify.ParseReplyLine(strings.TrimRight(string(raw), "\r\n"))
		if err != nil {
			return classify.Reply{}, err
		}
		if first != 0 && code != first {
			return classify.Reply{}, classify.ErrReply
		}
		first, lines = code, append(lines, text)
		if !more {
			return classify.NewReply(code, lines), nil
		}
	}
	return classify.Reply{}, classify.ErrReply
}
