// Command mkzones writes zones.zip, the time zone data that package calendar
// embeds, from an installed IANA database: each zone once, and a table of the old
// names. Run it for every release of the database:
//
//	go run ./internal/calendar/mkzones -zoneinfo DIR -out internal/calendar/zones.zip
//
// DIR is a zoneinfo folder with tzdata.zi and zone.tab in it, such as the one of
// the Python package tzdata, which follows the database within days.
package main

import (
	"archive/zip"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	zoneinfo := flag.String("zoneinfo", "/usr/share/zoneinfo", "folder of the installed database")
	out := flag.String("out", "zones.zip", "archive to write")
	flag.Parse()
	if err := run(*zoneinfo, *out); err != nil {
		fmt.Fprintln(os.Stderr, "mkzones:", err)
		os.Exit(1)
	}
}

func run(zoneinfo, out string) error {
	table, err := os.ReadFile(filepath.Join(zoneinfo, "tzdata.zi"))
	if err != nil {
		return err
	}
	places, err := os.ReadFile(filepath.Join(zoneinfo, "zone.tab"))
	if err != nil {
		return err
	}
	files, err := readZones(zoneinfo, string(table))
	if err != nil {
		return err
	}
	archive, err := pack(version(string(table)), files, readLinks(string(table), string(places)))
	if err != nil {
		return err
	}
	return os.WriteFile(out, archive, 0o644)
}

// version is what the table's first line says: "# version 2026f".
func version(table string) string {
	line, _, _ := strings.Cut(table, "\n")
	return strings.TrimPrefix(line, "# version ")
}

// readZones returns the compiled file of every zone and link of the table.
func readZones(dir, table string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for line := range strings.Lines(table) {
		var name string
		switch f := strings.Fields(line); {
		case len(f) > 2 && f[0] == "Z":
			name = f[1]
		case len(f) == 3 && f[0] == "L":
			name = f[2]
		}
		if name == "" || name == "Factory" { // Factory stands for "nobody has set a zone"
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		files[name] = data
	}
	return files, nil
}

// readLinks returns the old names and what they are called today. A place that
// zone.tab lists keeps its name, and the names of UTC lead to UTC.
func readLinks(table, places string) map[string]string {
	links := map[string]string{}
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "L" {
			links[f[2]] = f[1]
		}
	}
	for line := range strings.Lines(places) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); !strings.HasPrefix(line, "#") && len(f) > 2 {
			delete(links, f[2])
		}
	}
	for name, target := range links {
		if target == "Etc/UTC" {
			links[name] = "UTC"
		}
	}
	links["Etc/UTC"] = "UTC"
	delete(links, "UTC")
	return links
}

// pack writes the version, each zone once, and the links as a table. It refuses
// links whose two names do not mean the same times.
func pack(version string, files map[string][]byte, links map[string]string) ([]byte, error) {
	var table strings.Builder
	var names []string
	for name, data := range files {
		target, isLink := links[name]
		if isLink && !bytes.Equal(data, files[target]) {
			return nil, fmt.Errorf("%s links to %s, but their data differ: the folder mixes releases", name, target)
		}
		if !isLink {
			names = append(names, name)
		}
	}
	old := make([]string, 0, len(links))
	for name := range links {
		old = append(old, name)
	}
	slices.Sort(names)
	slices.Sort(old)
	for _, name := range old {
		fmt.Fprintf(&table, "%s %s\n", name, links[name])
	}

	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	put := func(name string, data []byte) error {
		f, err := w.Create(name)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return err
	}
	if err := put("version", []byte(version)); err != nil {
		return nil, err
	}
	if err := put("links", []byte(table.String())); err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := put(name, files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}
