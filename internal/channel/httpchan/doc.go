// Package httpchan delivers effects as HTTP requests.
//
// The payload is the body of the request, byte for byte. The effect key goes along
// as Idempotency-Key, the kind and the attempt as Duly-Kind and Duly-Attempt, the
// producer's trace as traceparent, and, with a signing secret, a Standard Webhooks
// signature.
//
// # When an effect may have happened
//
// A request may be acted on from its first byte. So every connection is wrapped:
// the wrapper calls Effect.Begin when the first byte of a request is about to be
// written, which is after the name was resolved, the connection made and TLS
// agreed on, or at once on a connection that is used again. If Begin refuses, the
// byte is not written. If an attempt ends without that byte, the effect did not
// happen, whatever went wrong. If it ends after it, only an answer with a status
// of which the protocol says so proves that nothing happened (internal/classify);
// no answer, half an answer or a broken one leave it unknown.
//
// The status line with its headers is the answer. A 2xx whose body breaks off, is
// too long or never ends is a delivery all the same: the receiver has said that it
// acted, and its body adds nothing that is used. The body is read, within bounds,
// only so that the connection can be used again.
//
// # One request, one write
//
// Go's net/http sends a request again by itself if a connection that it had used
// before breaks, the body can be had again (GetBody) and the request carries an
// Idempotency-Key: it takes the header for a promise of the receiver, and with a
// receiver that does not keep it, one attempt makes two effects. Requests here have
// no GetBody, whatever their headers, so nothing that was written is written
// twice. Connections to receivers that promise no window are kept for a second at
// most, because a connection that the receiver closes just as it is used again
// costs an unknown outcome.
//
// HTTP/2 is not spoken. With one request at a time on a connection, "was a byte of
// this request written?" is answered by the connection itself; in HTTP/2 it is
// spread over frames, windows and a retry of refused streams inside the library.
//
// # Where it does not go
//
// Redirects are not followed: the receiver may have acted before it answered, and
// where it points to was chosen by nobody here. No proxy is taken from the
// environment. Addresses that are not public (loopback, private, link-local and
// their likes) are refused unless the configuration allows their network; the
// address that is about to be dialled is checked, not the name, so a name that
// resolves to something else a second time gains nothing.
//
// # Asking
//
// A Lookup asks a receiver what became of an effect (lookup.go). An answer of "no" is
// followed by another attempt, so that a "no" must be one: about this effect (the URL
// names it, and a question that lacks a part of the URL is not asked), by a status that
// speaks of effects, and out of a body that was read to its end.
package httpchan
