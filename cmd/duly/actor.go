package main

import "duly.dev/duly/internal/app"

// actor is who acts, for commands that change something.
type actor struct {
	Actor string `env:"DULY_ACTOR" placeholder:"NAME" help:"Who acts; recorded (the login name)."`
}

// AfterApply makes the login name the actor where none is given.
func (a *actor) AfterApply() error { //nolint:unparam // kong asks for an error
	if a.Actor == "" {
		a.Actor = app.Login()
	}
	return nil
}
