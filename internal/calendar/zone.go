package calendar

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrUnknownZone is what every refused zone name matches with errors.Is.
var ErrUnknownZone = errors.New("it must be an IANA time zone such as Europe/Paris")

//go:embed zones.zip
var archive []byte

// Zone is a time zone of the IANA database.
type Zone struct {
	name     string
	given    string
	location *time.Location
}

// LoadZone finds a zone by its name of today or an old one. Names are matched as
// the IANA database spells them. "", "Local" and names of no zone are refused with
// ErrUnknownZone.
func LoadZone(name string) (*Zone, error) {
	if z, ok := loaded.Load(name); ok {
		return z.(*Zone), nil
	}
	d := data()
	canonical, ok := d.canonical[name]
	if !ok {
		return nil, fmt.Errorf("zone %q: %w", short(name), ErrUnknownZone)
	}
	tz, err := read(d.files[canonical])
	if err != nil {
		return nil, fmt.Errorf("reading zone %s from the embedded data: %w", canonical, err)
	}
	location, err := time.LoadLocationFromTZData(canonical, tz)
	if err != nil {
		return nil, fmt.Errorf("decoding zone %s: %w", canonical, err)
	}
	z, _ := loaded.LoadOrStore(name, &Zone{name: canonical, given: name, location: location})
	return z.(*Zone), nil
}

// KnownZone reports whether LoadZone knows the name.
func KnownZone(name string) bool {
	_, ok := data().canonical[name]
	return ok
}

// ZoneNames lists every name that LoadZone knows, old ones too, in order.
func ZoneNames() []string {
	d := data()
	names := make([]string, 0, len(d.canonical))
	for name := range d.canonical {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Release is the release of the IANA database that is embedded, such as "2026f".
func Release() string { return data().release }

// Name is the zone's canonical name: what the IANA database calls it today, and
// UTC for all names of UTC.
func (z *Zone) Name() string { return z.name }

// Given is the name that the zone was asked for by, which may be an old one.
func (z *Zone) Given() string { return z.given }

// Location is the zone as the standard library has it.
func (z *Zone) Location() *time.Location { return z.location }

// String is the canonical name.
func (z *Zone) String() string { return z.name }

// loaded holds the zones that were asked for, by the name that was used.
var loaded sync.Map

// zoneData is the embedded archive, opened.
type zoneData struct {
	release   string
	files     map[string]*zip.File
	canonical map[string]string // from every known name
}

// data opens the archive once. It is part of the program and tested with it, so
// that it cannot be unreadable in a program that was built.
var data = sync.OnceValue(func() zoneData {
	d, err := open(archive)
	if err != nil {
		panic("calendar: the embedded zones.zip is damaged: " + err.Error())
	}
	return d
})

func open(archive []byte) (zoneData, error) {
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return zoneData{}, err
	}
	d := zoneData{files: map[string]*zip.File{}, canonical: map[string]string{}}
	for _, f := range r.File {
		d.files[f.Name] = f
		d.canonical[f.Name] = f.Name
	}
	delete(d.canonical, "links")
	delete(d.canonical, "version")
	release, err := read(d.files["version"])
	if err != nil {
		return zoneData{}, err
	}
	d.release = string(release)
	links, err := read(d.files["links"])
	if err != nil {
		return zoneData{}, err
	}
	for line := range strings.Lines(string(links)) {
		if old, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			d.canonical[old] = name
		}
	}
	return d, nil
}

func read(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

// short keeps a refused name fit to be shown.
func short(name string) string {
	if len(name) > 80 {
		return name[:80] + "…"
	}
	return name
}
