package app

import (
	"fmt"
	"maps"
	"slices"

	"duly.dev/duly/pkg/job"
)

// sources checks the databases that selections and destinations may be asked of.
func (c *checker) sources() {
	for _, name := range slices.Sorted(maps.Keys(c.file.Sources)) {
		at := "sources." + name
		c.require(job.ValidName(name), at, nameRule)
		c.require(name != SourceLedger, at, "this name is the ledger's own database; give the source another")
		if ref := c.file.Sources[name]; ref != nil {
			c.section("sources", ref.Validate(name))
		}
	}
}

// Sources reads the connection strings of the databases that some schedule's selection is
// asked of, by the source's name. Its errors name the source and where its secret is.
func (c *Config) Sources() (map[string]string, error) {
	urls := map[string]string{}
	for _, s := range c.schedules {
		url, err := c.Source(s.Source)
		if err != nil {
			return nil, err
		}
		if url != "" {
			urls[s.Source] = url
		}
	}
	return urls, nil
}

// Source reads the connection string of a source; empty for the ledger's own database. Its
// error names the source and where its secret is.
func (c *Config) Source(name string) (string, error) {
	ref := c.sources[name]
	if ref == nil {
		return "", nil
	}
	url, err := ref.Load()
	if err != nil {
		return "", fmt.Errorf("sources.%s: %w", name, err)
	}
	return url, nil
}

// declared refuses a source that is not declared.
func (c *checker) declared(field, source string) {
	if source == SourceLedger || !job.ValidName(source) {
		return
	}
	_, ok := c.file.Sources[source]
	c.require(ok, field, "there is no such source; say where it is as sources.%s", source)
}
