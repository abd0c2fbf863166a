package count

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// parseProxies reads a comma-separated list of networks, addresses, and names of networks: those that docgauge knows,
// and files of published addresses.
func parseProxies(text string, published *agents.Ranges) (all []netip.Prefix, err error) {
	for _, part := range format.List(text) {
		named := published.Networks(part)
		if named == nil {
			named = logs.Proxies(part)
		}
		if named == nil {
			p, err := parseNetwork(part)
			if err != nil {
				return nil, fmt.Errorf("%w; or cloudflare, fastly, private, or the name of a file in DOCGAUGE_SITE_RANGES_DIR", err)
			}
			named = []netip.Prefix{p}
		}
		all = append(all, named...)
	}
	return all, nil
}

// ParseNetworks reads a comma-separated list of networks and addresses.
func ParseNetworks(text string) (all []netip.Prefix, err error) {
	for _, part := range format.List(text) {
		p, err := parseNetwork(part)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// parseNetwork reads 192.0.2.0/24, 2001:db8::/32 or a single address.
func parseNetwork(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if addr, bad := netip.ParseAddr(text); bad == nil {
		addr = addr.Unmap().WithZone("")
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil {
		return p, fmt.Errorf("%.60q: want a network such as 192.0.2.0/24, or an address", text)
	}
	if p.Addr().Is4In6() { // clients are compared as IPv4
		const mapped = 96
		if p.Bits() < mapped {
			return p, fmt.Errorf("%.60q: contains more than IPv4 addresses and matches no client: write 0.0.0.0/0 or ::/0",
				text)
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked(), nil
}

func contains(networks []netip.Prefix, addr netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// parseAddr reads an address, which may have a port, as some proxies write it: of IPv6 with brackets or after all eight
// groups.
func parseAddr(text []byte) (netip.Addr, bool) {
	if addr, ok := parseIPv4(text); ok {
		return addr, true
	}
	if len(text) > 64 {
		return netip.Addr{}, false
	}
	address := string(text)
	if end := strings.LastIndexByte(address, ']'); end > 0 && address[0] == '[' {
		if port := address[end+1:]; port != "" && (port[0] != ':' || strings.Trim(port[1:], "0123456789") != "") {
			return netip.Addr{}, false
		}
		address = address[1:end]
	}
	addr, err := netip.ParseAddr(address)
	if at := strings.LastIndexByte(address, ':'); err != nil && at > 0 && at+1 < len(address) &&
		strings.Trim(address[at+1:], "0123456789") == "" {
		addr, err = netip.ParseAddr(address[:at])
	}
	return addr.Unmap().WithZone(""), err == nil
}

// parseIPv4 reads the usual form of most addresses without allocating memory.
func parseIPv4(text []byte) (netip.Addr, bool) {
	var four [4]byte
	i, digits, n := 0, 0, 0
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9' && digits < 3 && (digits != 1 || n != 0):
			n, digits = n*10+int(c-'0'), digits+1
		case c == '.' && digits > 0 && i < 3 && n < 256:
			four[i] = byte(n)
			i, digits, n = i+1, 0, 0
		default:
			return netip.Addr{}, false
		}
	}
	if i != 3 || digits == 0 || n > 255 {
		return netip.Addr{}, false
	}
	four[3] = byte(n)
	return netip.AddrFrom4(four), true
}

// networkOf returns the part of an address that stands for a client, as an address and as bytes: the /64 of IPv6.
func networkOf(addr netip.Addr) (client netip.Addr, bytes []byte) {
	bits := addr.As16()
	if addr.Is4() {
		return addr, bits[12:]
	}
	return netip.AddrFrom16([16]byte(append(bits[:8:8], make([]byte, 8)...))), bits[:8]
}
