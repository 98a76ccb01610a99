package httpchan

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"duly.dev/duly/pkg/job"
)

// Checker checks destinations for doors, which need neither secrets nor
// connections.
type Checker struct{ policy policy }

// NewChecker makes a checker of a valid configuration.
func NewChecker(cfg Config) (*Checker, error) {
	networks, err := parseNetworks(cfg.AllowNetworks)
	if err != nil {
		return nil, err
	}
	return &Checker{policy{networks}}, nil
}

// Check refuses a destination that is not an http or https URL with a host, that
// carries a user, a password or a fragment, that is over job.MaxDestination bytes,
// or whose host is an address that must not be dialled. Names are resolved, and
// their addresses checked, when the effect is performed. Any JSON payload will do.
func (c *Checker) Check(destination string, _ []byte) *job.Refusal {
	if destination == "" {
		return job.Refuse("destination", "", job.RuleRequired, "an http or https URL")
	}
	if len(destination) > job.MaxDestination {
		return job.Refuse("destination", destination, job.RuleTooLong, "at most "+strconv.Itoa(job.MaxDestination)+" bytes")
	}
	u, err := url.Parse(destination)
	if err != nil {
		return job.Refuse("destination", destination, job.RuleDestination, "it is not a URL")
	}
	if strings.Contains(destination, "#") {
		return job.Refuse("destination", destination, job.RuleDestination, "it must not have a fragment")
	}
	if u.User != nil {
		return job.Refuse("destination", "", job.RuleDestination,
			"it must not carry a user or a password; use secret_headers of the channel")
	}
	if why := whyNot(u); why != "" {
		return job.Refuse("destination", destination, job.RuleDestination, why)
	}
	if err := c.forbidden(u); err != nil {
		return job.Refuse("destination", destination, job.RuleDestination, err.Error())
	}
	return nil
}

// forbidden returns an error if the host is an address, not a name, that must not
// be dialled.
func (c *Checker) forbidden(u *url.URL) error {
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil //nolint:nilerr // a name is checked when it is dialled
	}
	return c.policy.check(addr)
}

// whyNot says what is wrong with a URL, or nothing.
func whyNot(u *url.URL) string {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "it must begin with http:// or https://"
	case u.Hostname() == "":
		return "it has no host"
	case !validHost(u.Hostname()):
		return "its host is not a name or an address"
	case u.Port() != "" && !validPort(u.Port()):
		return "its port must be 1 to 65535"
	}
	return ""
}

func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	ascii, err := idna.Lookup.ToASCII(host)
	return err == nil && ascii != "" && len(ascii) <= 253
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
