// Package classify holds the tables that say what an answer of a receiver means.
// It is pure: it reads no clock and does no I/O.
//
// # How a rule is read
//
// Every rule states its certainty first and only then the class and the code,
// because the two questions are different ones. "Did the effect happen?" has
// three answers: it happened, it provably did not, nobody here knows. "Would
// another try help?" may only be asked after the second of them. A rule that says
// "did not happen" therefore rests on the word of the protocol, never on a guess
// about how servers behave.
//
// # HTTP
//
// Only 2xx is success. 400–406, 410–417 and 422 say that the receiver refused
// the request as such; 425 and 429 say that it did not look at it yet. These, and
// no others, prove that nothing happened. 401 and 403 are permanent: the answer is
// one receiver's judgement of one request, and a receiver that is asked again and
// again with the credentials that it refused blocks the sender. 404 means that the
// address is wrong, 410 that it is gone for good. 400, 405, 406, 411–417 and 422
// refuse the content: the same bytes are refused again.
//
// Everything else is unknown. A 3xx is not followed, and a receiver may redirect
// after it acted (POST, then "see other"). 408 and 409 come from receivers that had
// some or all of the request, and a 409 may well mean that an earlier attempt is
// being worked on. A 5xx, 501 and 503 included, is what frameworks and proxies send
// when something broke *after* the work was handed over; a Retry-After beside it
// says when to call again, not that nothing was done. Where the kind's receiver
// dedupes, an unknown outcome is repeated all the same, which costs nothing; where
// it does not, a wrong "did not happen" would be a second effect.
//
// # SMTP
//
// SMTP has the better protocol: responsibility for a message passes with the
// positive reply to the final dot and not before (RFC 5321, 4.2.5 and 6.1). So a
// 4xx or 5xx to *any* command, the final dot included, proves that nothing
// happened, and a 2xx to the final dot proves that it did. What remains unknown is
// a final dot without a reply that can be read.
//
// 4xx is transient and 5xx permanent, with one exception: what a server refuses
// before the first MAIL command (a greeting of 554, an EHLO or STARTTLS that it
// does not take, a password that it does not know), and 530, 534, 535 and 538
// wherever they come, is about *our* session and the same for every job of the
// kind. Were it permanent, one mistaken password would move every customer's
// reminder into quarantine within a minute, although each of them is fine.
// It is transient instead: the jobs back off, an alert on the code finds a person,
// and they go out by themselves when the credentials are repaired in time.
//
// Enhanced status codes (RFC 3463) refine the code: x.1.y is about the address,
// x.7.y about policy. Their first digit never overrules the reply's own, and one
// that contradicts it is ignored.
//
// # Lookups
//
// An answer to the question what became of an effect is read by rules that the kind
// states. They cannot make a "no" of statuses that speak of the request and not of the
// effect: a "no" is followed by another attempt.
package classify
