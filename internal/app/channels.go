package app

import (
	"context"
	"fmt"
	"time"

	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/internal/channel/smtpchan"
	"duly.dev/duly/pkg/job"
)

// Checker says whether a kind's channel could use a destination and a payload,
// without I/O and without secrets; doors ask it before they accept a job.
type Checker interface {
	Check(destination string, payload []byte) *job.Refusal
}

// channelBound is what a channel has to close its idle connections.
const channelBound = 5 * time.Second

// OpenChannels opens the channel of every kind that Duly performs itself (http,
// smtp), by the kind's name, and pushes each teardown on the stack. It reads the
// secrets and files that the configuration refers to; what is wrong with them ends a
// program with ExitUsage.
func (c *Config) OpenChannels(stack *Stack) (map[string]channel.Channel, error) {
	channels := map[string]channel.Channel{}
	for _, k := range c.kinds {
		opened, err := k.open()
		if err != nil {
			return nil, Exit(ExitUsage, fmt.Errorf("opening the channel of kind %s: %s.%w", k.Name, k.Channel, err))
		}
		if opened == nil {
			continue
		}
		stack.Push("channel of kind "+k.Name, channelBound, func(context.Context) error { return opened.Close() })
		channels[k.Name] = opened
	}
	return channels, nil
}

// open opens the kind's channel; nil for go. A new channel is named here and in Kind.
func (k Kind) open() (channel.Channel, error) {
	switch k.Channel {
	case ChannelHTTP:
		return httpchan.New(*k.HTTP, k.Promises.Window)
	case ChannelSMTP:
		return smtpchan.New(*k.SMTP)
	default:
		return nil, nil
	}
}

// Checkers are the checkers of the kinds that Duly performs itself, by the kind's name.
// The destinations of other kinds are for their handlers to judge.
type Checkers map[string]Checker

// Check says why the kind's channel cannot use the destination or the payload; nil where
// it can, or where there is no checker of the kind.
func (c Checkers) Check(kind, destination string, payload []byte) *job.Refusal {
	if checker := c[kind]; checker != nil {
		return checker.Check(destination, payload)
	}
	return nil
}

// Checkers makes the checkers of the configuration's kinds.
func (c *Config) Checkers() (Checkers, error) {
	checkers := Checkers{}
	for _, k := range c.kinds {
		checker, err := k.checker()
		if err != nil {
			return nil, Exit(ExitUsage, fmt.Errorf("kind %s: %s.%w", k.Name, k.Channel, err))
		}
		if checker != nil && k.Resolve != nil {
			checker = lateChecker{checker}
		}
		if checker != nil {
			checkers[k.Name] = checker
		}
	}
	return checkers, nil
}

func (k Kind) checker() (Checker, error) {
	switch k.Channel {
	case ChannelHTTP:
		return httpchan.NewChecker(*k.HTTP)
	case ChannelSMTP:
		return smtpchan.Checker{}, nil
	default:
		return nil, nil
	}
}
