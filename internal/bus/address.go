package bus

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// ports are the ports that a scheme means where a URL names none.
var ports = map[string]string{"nats": "4222", "kafka": "9092"}

// Address is what a bus is called in the ledger and in messages: its protocol and its
// servers in order, without credentials and settings, so that two URLs of one bus give
// the same, such as nats://bus-1:4222,bus-2:4222. The URL may list several servers,
// separated by commas, each with a scheme or only the first.
func Address(address string) (string, error) {
	scheme, _, ok := strings.Cut(address, "://")
	if scheme == "tls" {
		scheme = "nats" // the same servers, asked for encryption
	}
	port := ports[scheme]
	if !ok || port == "" {
		return "", fmt.Errorf("the bus's URL: its scheme must be nats://, tls:// or kafka://, not %q", scheme)
	}
	address, _, _ = strings.Cut(address, "?")
	var hosts []string
	for one := range strings.SplitSeq(address, ",") {
		if _, rest, ok := strings.Cut(one, "://"); ok {
			one = rest
		}
		u, err := url.Parse("//" + strings.TrimSpace(one))
		if err != nil || u.Hostname() == "" {
			return "", fmt.Errorf("the bus's URL: server %d must be host:port", len(hosts)+1)
		}
		host := strings.ReplaceAll(strings.ToLower(u.Hostname()), "%", "%25") // the zone of an IPv6 address, as URLs have it
		hosts = append(hosts, net.JoinHostPort(host, cmp.Or(u.Port(), port)))
	}
	slices.Sort(hosts)
	return scheme + "://" + strings.Join(slices.Compact(hosts), ","), nil
}
