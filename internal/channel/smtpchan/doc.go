// Package smtpchan delivers effects as mails, each to one recipient, through one
// configured mail server.
//
// Subject, text and HTML are Go templates over the payload and what is known of
// the job (Fields). What a template asks for and the payload does not have is an
// error: the effect is refused before anything is sent, never sent with a hole in
// it. Addresses and subjects cannot bring in a header of their own.
//
// # When a mail may have been sent
//
// A mail server takes responsibility when it answers the final dot, and until it
// has that dot it must throw away what it got (RFC 5321, 4.1.1.4). The content is
// therefore written first and the three bytes ".\r\n" by themselves, and an attempt
// that ends before the write of these began did not happen, whatever was sent
// before. One that ends after it is settled by the reply alone: 2xx delivered, 4xx
// and 5xx did not happen (also to the dot); no reply, or one that is none, leave it
// unknown, since the server may have accepted the mail before the connection was
// lost. SMTP knows no key to dedupe on, so such a mail is not sent again by the
// machine. Its Message-ID is derived from the effect key and helps a person, and
// some receivers, to find it.
//
// Effect.Begin is called when the server has answered DATA with "go on", just
// before the first byte of content. If it refuses, the connection is closed, which
// makes the server forget the mail.
//
// # Sessions
//
// Sessions are kept for a while and used again, one mail at a time, after a RSET
// that shows that they live. A kept session that turns out to be dead, or that the
// server wants to end (421), before any content was sent is replaced once by a new
// one within the same attempt. What is wrong with the session itself (no TLS, a
// password that is refused) is transient by design; internal/classify says why.
//
// The server's address is the configuration's, not a job's, so private addresses
// are not refused here.
package smtpchan
