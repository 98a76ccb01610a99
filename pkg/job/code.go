package job

import "slices"

// Code says what went wrong, in a word that a person, a rule and a label share.
// The table is closed; a kind may declare codes of its own, and a code that is
// declared nowhere is CodeOther in labels.
type Code string

const (
	// CodeNone: nothing went wrong.
	CodeNone Code = ""
	// CodeDestinationInvalid: the receiver says that the destination does not exist.
	CodeDestinationInvalid Code = "DESTINATION_INVALID"
	// CodeDestinationForbidden: the address is one that Duly must not talk to.
	CodeDestinationForbidden Code = "DESTINATION_FORBIDDEN"
	// CodeDestinationGone: the receiver says that the destination is gone for good.
	CodeDestinationGone Code = "DESTINATION_GONE"
	// CodeUnreachable: no connection could be made; nothing was written.
	CodeUnreachable Code = "UNREACHABLE"
	// CodeUnauthorized: the receiver refuses our credentials.
	CodeUnauthorized Code = "UNAUTHORIZED"
	// CodeThrottled: the receiver asks to slow down.
	CodeThrottled Code = "THROTTLED"
	// CodeGreylisted: the mail server asks to come back later.
	CodeGreylisted Code = "GREYLISTED"
	// CodeReceiverBusy: the receiver refuses for now.
	CodeReceiverBusy Code = "RECEIVER_BUSY"
	// CodeRejected: the receiver refuses this content for good.
	CodeRejected Code = "REJECTED"
	// CodePayloadInvalid: the payload cannot be rendered for the channel.
	CodePayloadInvalid Code = "PAYLOAD_INVALID"
	// CodeServerError: the receiver failed after it had the request.
	CodeServerError Code = "SERVER_ERROR"
	// CodeRedirected: the receiver answered with a redirect, which is not followed.
	CodeRedirected Code = "REDIRECTED"
	// CodeConflict: the receiver answered that the request conflicts with another.
	CodeConflict Code = "CONFLICT"
	// CodeUnexpectedAnswer: the receiver answered what no rule covers.
	CodeUnexpectedAnswer Code = "UNEXPECTED_ANSWER"
	// CodeTimeout: the limit was over before an answer came.
	CodeTimeout Code = "TIMEOUT"
	// CodeConnectionLost: the connection ended after the effect may have begun.
	CodeConnectionLost Code = "CONNECTION_LOST"
	// CodeLeaseEnded: the lease ended without a result: a crash, a pause, a lost worker.
	CodeLeaseEnded Code = "LEASE_ENDED"
	// CodeHandlerError: a handler returned a plain error.
	CodeHandlerError Code = "HANDLER_ERROR"
	// CodeHandlerPanic: a handler panicked.
	CodeHandlerPanic Code = "HANDLER_PANIC"
	// CodeTLS: no secure connection could be agreed on; nothing of the effect was written.
	CodeTLS Code = "TLS_FAILED"
	// CodeMisconfigured: the kind's channel cannot work as configured.
	CodeMisconfigured Code = "MISCONFIGURED"
	// CodeOther stands in labels for any code that is declared nowhere.
	CodeOther Code = "OTHER"
)

// actions maps every code to what a person does about it.
var actions = map[Code]string{
	CodeDestinationInvalid:   "correct the destination, then redrive with --destination",
	CodeDestinationForbidden: "use a public address, or allow the network in the channel's allow list, then redrive",
	CodeDestinationGone:      "ask the receiver for the new destination, then redrive with --destination",
	CodeUnreachable:          "check the receiver's name, port and network; it is retried by itself",
	CodeUnauthorized:         "renew the channel's credentials, then redrive",
	CodeThrottled:            "nothing: it is retried when the receiver allows; lower the kind's rate if it persists",
	CodeGreylisted:           "nothing: it is retried by itself",
	CodeReceiverBusy:         "nothing: it is retried by itself",
	CodeRejected:             "read the receiver's answer, correct the payload, then redrive with --payload",
	CodePayloadInvalid:       "correct the payload or the template, then redrive with --payload",
	CodeServerError:          "ask the receiver whether it acted, then resolve",
	CodeRedirected:           "set the destination to the address that the redirect names, once it is known whether the receiver acted",
	CodeConflict:             "ask the receiver whether it acted, then resolve",
	CodeUnexpectedAnswer:     "ask the receiver whether it acted, then resolve; add a rule for this answer",
	CodeTimeout:              "ask the receiver whether it acted, then resolve; raise the kind's limit if it is only slow",
	CodeConnectionLost:       "ask the receiver whether it acted, then resolve",
	CodeLeaseEnded:           "find out why the worker died or paused; ask the receiver whether it acted, then resolve",
	CodeHandlerError:         "find out whether the handler acted, then resolve; return handler.NotDone where it did not",
	CodeHandlerPanic:         "repair the handler; find out whether it acted, then resolve",
	CodeTLS:                  "check the receiver's certificate and the channel's TLS settings; it is retried by itself",
	CodeMisconfigured:        "correct the kind's channel in duly.yaml, then redrive",
	CodeOther:                "read the detail of the last attempt",
}

// Codes lists the closed table of codes, CodeNone excluded, in no order.
func Codes() []Code {
	codes := make([]Code, 0, len(actions))
	for c := range actions {
		codes = append(codes, c)
	}
	return codes
}

// Action returns what a person does about the code. A code that the table does
// not know gets the action of CodeOther; CodeNone gets none.
func (c Code) Action() string {
	if c == CodeNone {
		return ""
	}
	if a, ok := actions[c]; ok {
		return a
	}
	return actions[CodeOther]
}

// Known reports whether the code is in the closed table.
func (c Code) Known() bool {
	_, ok := actions[c]
	return ok || c == CodeNone
}

// Label returns the code as a metric label: itself where it is known or is among
// the declared ones, else CodeOther, so that label sets stay closed.
func (c Code) Label(declared ...Code) Code {
	if c.Known() {
		return c
	}
	if slices.Contains(declared, c) {
		return c
	}
	return CodeOther
}
