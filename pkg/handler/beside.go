package handler

// beside is a handler with what stands beside it.
type beside struct {
	Handler

	lookup  Lookup
	cleanup Cleanup
	resolve Resolve
}

// besides is the handler with what stands beside it already, to be added to.
func besides(h Handler) beside {
	if b, ok := h.(beside); ok {
		return b
	}
	return beside{Handler: h}
}
