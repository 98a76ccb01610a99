package httpchan

import (
	"fmt"
	"net/netip"
	"syscall"
)

// forbiddenError says that an address is one that must not be dialled.
type forbiddenError struct{ addr netip.Addr }

func (e *forbiddenError) Error() string {
	return fmt.Sprintf("the address %s is not public and in none of allow_networks", e.addr)
}

// policy says which addresses may be dialled.
type policy struct{ allowed []netip.Prefix }

// control is a net.Dialer's Control. It sees each address after it was resolved and
// just before it is dialled, so a name cannot resolve to one address for the check
// and to another for the connection.
func (p policy) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dialling %q: %w", address, err)
	}
	return p.check(to.Addr())
}

// check returns a *forbiddenError for an address that must not be dialled.
func (p policy) check(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	for _, network := range p.allowed {
		if network.Contains(addr) {
			return nil
		}
	}
	if !public(addr) {
		return &forbiddenError{addr}
	}
	return nil
}

var (
	// nat64 carries an IPv4 address in its last four bytes and is judged by it.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// global is all of IPv6 that is assigned as global unicast. What is outside is
	// loopback, unspecified, link-local, site-local, unique local, multicast, IPv4
	// in disguise, or nothing yet.
	global = netip.MustParsePrefix("2000::/3")
	// special are the special-purpose networks of the IANA registries that are not
	// globally reachable, and those that tunnel IPv4 addresses.
	special = prefixes(
		"0.0.0.0/8",       // this network
		"10.0.0.0/8",      // private
		"100.64.0.0/10",   // carrier-grade NAT
		"127.0.0.0/8",     // loopback
		"169.254.0.0/16",  // link-local, metadata services
		"172.16.0.0/12",   // private
		"192.0.0.0/24",    // protocol assignments
		"192.0.2.0/24",    // documentation
		"192.88.99.0/24",  // 6to4 relays
		"192.168.0.0/16",  // private
		"198.18.0.0/15",   // benchmarks
		"198.51.100.0/24", // documentation
		"203.0.113.0/24",  // documentation
		"224.0.0.0/3",     // multicast, reserved, broadcast
		"2001::/23",       // protocol assignments, Teredo, ORCHID
		"2001:db8::/32",   // documentation
		"2002::/16",       // 6to4
		"3fff::/20",       // documentation
	)
)

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		all[i] = netip.MustParsePrefix(t)
	}
	return all
}

// public reports whether an address, unmapped and without a zone, is one of the
// public internet.
func public(addr netip.Addr) bool {
	if nat64.Contains(addr) {
		b := addr.As16()
		return public(netip.AddrFrom4([4]byte(b[12:])))
	}
	if addr.Is6() && !global.Contains(addr) {
		return false
	}
	for _, s := range special {
		if s.Contains(addr) {
			return false
		}
	}
	return addr.IsValid()
}
