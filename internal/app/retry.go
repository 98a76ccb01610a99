package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	firstWait   = 200 * time.Millisecond
	longestWait = 10 * time.Second
	// longestMean is spread by half of it to either side.
	longestMean = longestWait * 2 / 3
)

// Permanent marks an error that no retry can repair, such as a wrong password; nil
// stays nil. Retry stops at it and returns the error itself.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return backoff.Permanent(err)
}

// Retry calls try until it succeeds, fails with a Permanent error, or ctx ends. It
// waits between tries, 0.2 s at first and 10 s at most, with jitter, and says so in
// the log. what names what is waited for, for people: "the ledger at db:5432/duly"
// (Where makes the address fit to be shown). When ctx ends, the error is
// ErrUnavailable with ctx's cause and the last failure in it.
func Retry(ctx context.Context, log *slog.Logger, what string, try func(ctx context.Context) error) error {
	var last error
	began, tries := time.Now(), 0
	attempt := func() error {
		tries++
		last = try(ctx)
		return last
	}
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstWait),
		backoff.WithMaxInterval(longestMean), backoff.WithRandomizationFactor(0.5), backoff.WithMaxElapsedTime(0))
	err := backoff.RetryNotify(attempt, backoff.WithContext(wait, ctx), func(err error, next time.Duration) {
		log.WarnContext(ctx, "cannot be reached, trying again", "what", what, "error", err, "try", tries, "next_in", next.Round(time.Millisecond))
	})
	var permanent *backoff.PermanentError
	switch {
	case err == nil:
		if tries > 1 {
			log.InfoContext(ctx, "reached", "what", what, "tries", tries, "took", time.Since(began).Round(time.Millisecond))
		}
		return nil
	case errors.As(last, &permanent):
		return fmt.Errorf("%s: %w", what, permanent.Err)
	case last == nil:
		last = err
	}
	return fmt.Errorf("%s: %w after %d tries in %s: %w (%w)", what, ErrUnavailable, tries, time.Since(began).Round(time.Second), last, context.Cause(ctx))
}

// Where says where a connection string leads, fit for logs: hosts, ports and, for
// PostgreSQL, the database; never a user, a password or a parameter. It takes
// PostgreSQL URLs and keyword strings, and comma-separated bus URLs.
func Where(connection string) string {
	scheme, _, isURL := strings.Cut(connection, "://")
	if !isURL || strings.HasPrefix(scheme, "postgres") {
		c, err := pgconn.ParseConfig(connection)
		if err != nil {
			return "(an unreadable address)"
		}
		hosts := []string{net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))}
		for _, f := range c.Fallbacks {
			hosts = append(hosts, net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))))
		}
		return strings.Join(slices.Compact(hosts), ",") + "/" + c.Database
	}
	var hosts []string
	connection, _, _ = strings.Cut(connection, "?")
	for one := range strings.SplitSeq(connection, ",") {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			one = scheme + "://" + one
		}
		u, err := url.Parse(one)
		if err != nil || u.Host == "" {
			return "(an unreadable address)"
		}
		hosts = append(hosts, u.Host)
	}
	return strings.Join(hosts, ",")
}
