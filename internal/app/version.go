package app

import (
	"os"
	"runtime/debug"
)

// Version is the worker version: DULY_WORKER_VERSION where it is set, else the
// revision that the program was built from, with "+dirty" where the sources had
// been changed since, else the module's version, else "unknown".
func Version() string {
	if v := os.Getenv("DULY_WORKER_VERSION"); v != "" {
		return v
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	switch {
	case revision != "":
		return revision + dirty
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	default:
		return "unknown"
	}
}
