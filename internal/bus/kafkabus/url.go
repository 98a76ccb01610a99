package kafkabus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// queryKeys are what a URL may say behind the question mark.
var queryKeys = []string{"ca_file", "cert_file", "key_file", "partitions", "replicas", "sasl", "tls"}

const urlForm = "kafka://[user:password@]host:port[,host:port…][?tls=true&…]"

// parseURL returns the brokers of the URL and the options with what it says. Its errors
// never repeat what may hold a password.
func parseURL(address string, options Options) (brokers []string, _ Options, err error) {
	scheme, rest, _ := strings.Cut(address, "://")
	if scheme != "kafka" {
		return nil, options, fmt.Errorf("scheme %q: %s is expected", scheme, urlForm)
	}
	rest, query, _ := strings.Cut(rest, "?")
	login, hosts := "", strings.TrimSuffix(rest, "/")
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		login, hosts = hosts[:at], hosts[at+1:]
	}
	var errs []error
	for host := range strings.SplitSeq(hosts, ",") {
		broker, err := parseHost(host)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		brokers = append(brokers, broker)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, options, fmt.Errorf("what follows the question mark is not well-formed: %s is expected", urlForm)
	}
	errs = append(errs, unknownKeys(values), parseTopics(values, &options), parseTLS(values, &options), parseLogin(login, values, brokers, &options))
	return brokers, options, errors.Join(errs...)
}

// parseHost checks host:port; 9092 where no port is given.
func parseHost(text string) (string, error) {
	text = strings.TrimSpace(text)
	host, port, err := net.SplitHostPort(text)
	if err != nil && !strings.Contains(text, ":") {
		host, port, err = text, "9092", nil
	}
	if n, convErr := strconv.Atoi(port); err != nil || host == "" || strings.ContainsAny(host, "/@?#% ") || convErr != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("a broker is not of the form host:port: %s is expected", urlForm)
	}
	return net.JoinHostPort(host, port), nil
}

func unknownKeys(values url.Values) error {
	var errs []error
	for key, all := range values {
		if !slices.Contains(queryKeys, key) {
			errs = append(errs, fmt.Errorf("there is no setting %q: those of a Kafka URL are %s", key, strings.Join(queryKeys, ", ")))
		} else if len(all) > 1 {
			errs = append(errs, fmt.Errorf("%s is given %d times", key, len(all)))
		}
	}
	return errors.Join(errs...)
}

func parseTopics(values url.Values, options *Options) error {
	var errs []error
	for key, target := range map[string]*int{"partitions": &options.Partitions, "replicas": &options.Replicas} {
		if !values.Has(key) {
			continue
		}
		n, err := strconv.Atoi(values.Get(key))
		if err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("%s=%q: must be a whole number from 1 on", key, values.Get(key)))
			continue
		}
		*target = n
	}
	return errors.Join(errs...)
}

// parseTLS makes the TLS configuration of the URL.
func parseTLS(values url.Values, options *Options) error {
	on := false
	if values.Has("tls") {
		var err error
		if on, err = strconv.ParseBool(values.Get("tls")); err != nil {
			return fmt.Errorf("tls=%q: must be true or false", values.Get("tls"))
		}
	}
	if !on {
		for _, key := range []string{"ca_file", "cert_file", "key_file"} {
			if values.Has(key) {
				return fmt.Errorf("%s: it has a meaning only with tls=true", key)
			}
		}
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := values.Get("ca_file"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca_file %s: it holds no PEM certificate", file)
		}
	}
	cert, key := values.Get("cert_file"), values.Get("key_file")
	if (cert == "") != (key == "") {
		return errors.New("cert_file and key_file: either both or neither")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return fmt.Errorf("cert_file and key_file: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	options.TLS = config
	return nil
}

// parseLogin makes the SASL mechanism of the URL's user.
func parseLogin(login string, values url.Values, brokers []string, options *Options) error {
	name := values.Get("sasl")
	if login == "" {
		if values.Has("sasl") {
			return errors.New("sasl: the URL names no user: kafka://user:password@… is expected")
		}
		return nil
	}
	user, password, err := parseUser(login)
	if err != nil {
		return err
	}
	if options.sasl, err = mechanism(name, user, password); err != nil {
		return err
	}
	if name == "plain" && options.TLS == nil && !slices.ContainsFunc(brokers, isElsewhere) {
		return nil // this machine's own
	}
	if name == "plain" && options.TLS == nil {
		return errors.New("sasl=plain would send the password in the clear: add tls=true, or use scram-sha-512")
	}
	return nil
}

func parseUser(login string) (user, password string, err error) {
	user, password, has := strings.Cut(login, ":")
	user, err = url.PathUnescape(user)
	if err == nil {
		password, err = url.PathUnescape(password)
	}
	if err != nil || !has || user == "" || password == "" {
		return "", "", errors.New("the user or the password is missing or not percent-encoded: kafka://user:password@… is expected")
	}
	return user, password, nil
}

// mechanism is the SASL mechanism by its name; SCRAM-SHA-512 where none is given.
func mechanism(name, user, password string) (sasl.Mechanism, error) {
	switch name {
	case "plain":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "", "scram-sha-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	default:
		return nil, fmt.Errorf("sasl=%q: must be plain, scram-sha-256 or scram-sha-512", name)
	}
}

// isElsewhere reports whether the broker is not known to be this machine.
func isElsewhere(broker string) bool {
	host, _, _ := net.SplitHostPort(broker)
	if host == "localhost" {
		return false
	}
	address, err := netip.ParseAddr(host)
	return err != nil || !address.IsLoopback()
}
