package demo

import (
	"fmt"
	"strings"

	"github.com/emersion/go-smtp"

	"duly.dev/duly/pkg/job"
)

// digestPlan is what the mail server does with the domains of the digest's customers, and how
// their jobs must end; other domains accept.
var digestPlan = []mailBehaviour{
	{behaviour: behaviour{"greylisting.example", "greylists the first try", job.Delivered, "tried again"}, tries: 1, refuse: refusal(451, smtp.EnhancedCode{4, 7, 1}, "Greylisted, try again later")},
	{behaviour: behaviour{"hangs-up.example", "accepts, then hangs up", job.Delivered, "its log says that it happened: never sent twice"}, tries: always, hangUp: true},
	{behaviour: behaviour{"drops.example", "drops it and hangs up, once", job.Delivered, "its log says that it did not: sent again"}, tries: 1, drops: true},
	{behaviour: behaviour{"silent.example", "accepts, hangs up, logs nothing", job.Unknown, "nobody can tell: a person decides"}, tries: 1, hangUp: true, silent: true},
	{behaviour: behaviour{"asleep.example", "drops it, hangs up, logs nothing", job.Unknown, "nobody can tell: a person decides"}, tries: 1, drops: true, silent: true},
	{behaviour: behaviour{"moved-away.example", "does not know the user", job.Quarantined, "permanent: the address is wrong"}, tries: always, refuse: refusal(550, smtp.EnhancedCode{5, 1, 1}, "No such user here")},
}

// digestAt is the plan for an address.
func digestAt(address string) mailBehaviour {
	domain := address[strings.LastIndexByte(address, '@')+1:]
	for _, b := range digestPlan {
		if b.where == domain {
			return b
		}
	}
	return mailAccepts
}

// zones are those of the customers.
var zones = []string{"Europe/Paris", "America/New_York", "America/Los_Angeles", "Asia/Tokyo", "Asia/Kolkata", "Australia/Sydney"}

// customer is one to whom a digest is to be sent.
type customer struct {
	id, name, zone string
	// then is the address when the digest was written, and now the one when it is sent; empty
	// is none.
	then, now string
	// left: there is no such customer any more.
	left bool
	// refused: the digest cannot become a job; twice: it was written twice by mistake.
	refused, twice bool
}

// moved reports whether the customer has another address than when the digest was written.
func (c customer) moved() bool { return c.now != "" && c.now != c.then && !c.left }

// plan is what becomes of the customer's digest.
func (c customer) plan() behaviour {
	switch {
	case c.left:
		return behaviour{"left", "(has left altogether)", job.Quarantined, "there is no address: nothing was sent"}
	case c.now == "":
		return behaviour{"none", "(has no address any more)", job.Quarantined, "there is no address: nothing was sent"}
	case c.moved():
		b := digestAt(c.now).behaviour
		if b.where == "" {
			b.does, b.why = "accepts, at the new address", "the address was asked for when it was sent"
		}
		return b
	}
	return digestAt(c.now).behaviour
}

// effects is how many the mail server must have seen.
func (c customer) effects() int {
	plan := digestAt(c.now)
	if c.refused || c.left || c.now == "" || plan.ends == job.Quarantined || plan.ends == job.Unknown && plan.drops {
		return 0
	}
	return 1
}

// parts are the shares of customers with something special: of each hundred or thousand that
// whose number leaves this rest.
var parts = []struct {
	of, rest int
	is       func(c *customer)
}{
	{50, 7, mailed("greylisting.example")},
	{100, 13, mailed("hangs-up.example")},
	{100, 31, mailed("drops.example")},
	{500, 99, mailed("silent.example")},
	{500, 199, mailed("asleep.example")},
	{250, 123, mailed("moved-away.example")},
	{500, 299, func(c *customer) { c.now = "" }},
	{500, 399, func(c *customer) { c.left = true }},
	{10, 4, func(c *customer) { c.then = "old-" + c.id + "@moved-away.example" }},
	{2000, 1000, func(c *customer) { c.zone, c.refused = "Mars/Olympus_Mons", true }},
	{1000, 500, func(c *customer) { c.twice = true }},
}

func mailed(domain string) func(*customer) {
	return func(c *customer) { c.now = c.id + "@" + domain; c.then = c.now }
}

// customers makes so many customers, the same ones each time.
func customers(n int) []customer {
	all := make([]customer, n)
	for i := range all {
		number := i + 1
		c := customer{id: fmt.Sprintf("c%05d", number), name: fmt.Sprintf("Customer %d", number), zone: zones[i%len(zones)]}
		mailed("example.com")(&c)
		for _, p := range parts {
			if number%p.of == p.rest {
				p.is(&c)
				break
			}
		}
		all[i] = c
	}
	return all
}
