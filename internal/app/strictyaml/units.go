package strictyaml

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const durationRule = "it must be a duration with its unit, such as 500ms, 30s, 10m, 24h or 7d"

// ParseDuration reads a duration as Go writes it, and whole days besides: "7d",
// "1d12h". A day is 24 hours. A number without a unit is refused, 0 too.
func ParseDuration(text string) (time.Duration, error) {
	rest, negative := strings.CutPrefix(text, "-")
	var v time.Duration
	if number, after, ok := strings.Cut(rest, "d"); ok {
		days, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return 0, errors.New(durationRule)
		}
		v, rest = time.Duration(days)*24*time.Hour, orZero(after)
	}
	if strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "+") || rest == "0" {
		return 0, errors.New(durationRule)
	}
	hours, err := time.ParseDuration(rest)
	if err != nil || v+hours < v {
		return 0, errors.New(durationRule)
	}
	if v += hours; negative {
		v = -v
	}
	return v, nil
}

// orZero is the rest of a duration after its days.
func orZero(rest string) string {
	if rest == "" {
		return "0s"
	}
	return rest
}

// FormatDuration writes a duration as people read it: "7d", "1h30m", "10s".
// ParseDuration reads it.
func FormatDuration(v time.Duration) string {
	const day = 24 * time.Hour
	if v >= day && v%day == 0 {
		return strconv.FormatInt(int64(v/day), 10) + "d"
	}
	s := v.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Size is a number of bytes. Its text is a whole number, alone or with a unit: B,
// KiB, MiB or GiB.
type Size int64

// sizeUnits are the units from the largest.
var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	number, factor := string(text), int64(1)
	for _, u := range sizeUnits {
		if before, ok := strings.CutSuffix(number, u.name); ok {
			number, factor = strings.TrimSpace(before), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return errors.New("it must be a size such as 4096, 256KiB or 1MiB")
	}
	*s = Size(n * factor)
	return nil
}

// String is the size in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if int64(s) >= u.bytes && int64(s)%u.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(s)/u.bytes, u.name)
		}
	}
	return "0B"
}
