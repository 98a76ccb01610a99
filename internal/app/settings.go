package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
)

// Settings are what a process with loops is told from outside: where the ledger,
// the bus and the configuration are, and how it shows itself. Embed it in a
// program's grammar; each part also stands alone for programs that need less.
type Settings struct {
	LedgerSettings
	BusSettings
	ConfigSettings
	AdminSettings
	LogSettings
}

// LedgerSettings say where the ledger is. After parsing DatabaseURL is set.
type LedgerSettings struct {
	DatabaseURL     string `group:"Ledger" env:"DULY_DATABASE_URL" placeholder:"URL" help:"PostgreSQL connection string of the ledger, such as postgres://duly@db:5432/duly."`
	DatabaseURLFile string `group:"Ledger" env:"DULY_DATABASE_URL_FILE" placeholder:"FILE" help:"File that holds the connection string, for secrets that are mounted."`
}

// AfterApply reads the file and refuses a missing or double setting.
func (s *LedgerSettings) AfterApply() error {
	return setting{"ledger", "--database-url", "DULY_DATABASE_URL", "postgres://duly@db:5432/duly"}.resolve(&s.DatabaseURL, s.DatabaseURLFile)
}

// BusSettings say where the bus is, and where it is going to be while lanes move to
// another. After parsing BusURL is set.
type BusSettings struct {
	BusURL     string `group:"Bus" name:"bus-url" env:"DULY_BUS_URL" placeholder:"URL" help:"Where the bus is, such as nats://bus:4222 or kafka://bus:9092; several servers are separated by commas."`
	BusURLFile string `group:"Bus" name:"bus-url-file" env:"DULY_BUS_URL_FILE" placeholder:"FILE" help:"File that holds the bus URL."`
	NextURL    string `group:"Bus" name:"bus-next-url" env:"DULY_BUS_NEXT_URL" placeholder:"URL" help:"Where the bus is going to be: dispatchers turn to it when duly bus move is run, workers take work from both."`
	NextFile   string `group:"Bus" name:"bus-next-url-file" env:"DULY_BUS_NEXT_URL_FILE" placeholder:"FILE" help:"File that holds the next bus URL."`
}

// AfterApply reads the file and refuses a missing or double setting.
func (s *BusSettings) AfterApply() error {
	err := setting{"bus", "--bus-url", "DULY_BUS_URL", "nats://bus:4222 or kafka://bus:9092"}.resolve(&s.BusURL, s.BusURLFile)
	if s.NextURL == "" && s.NextFile == "" {
		return err
	}
	return errors.Join(err, setting{"next bus", "--bus-next-url", "DULY_BUS_NEXT_URL", "kafka://bus:9092"}.resolve(&s.NextURL, s.NextFile))
}

// ConfigSettings say where the configuration is.
type ConfigSettings struct {
	Config string `group:"Configuration" env:"DULY_CONFIG" default:"duly.yaml" placeholder:"FILE" help:"Configuration of kinds, lanes, channels and policies; the same for every process (${default})."`
}

// Load reads the configuration; what is wrong with it ends a program with ExitUsage.
func (s *ConfigSettings) Load() (*Config, error) {
	c, err := LoadConfig(s.Config)
	return c, Exit(ExitUsage, err)
}

// AdminSettings say where metrics, health and profiles are served.
type AdminSettings struct {
	AdminAddr string `group:"Process" env:"DULY_ADMIN_ADDR" default:"${admin_addr}" placeholder:"HOST:PORT" help:"Where /metrics, /livez and /readyz are served; port 0 takes a free one (${default})."`
	Pprof     bool   `group:"Process" env:"DULY_PPROF" help:"Serve profiles below /debug/pprof on the admin address."`
}

// LogSettings say what is logged, and how.
type LogSettings struct {
	LogLevel  slog.Level `group:"Process" env:"DULY_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"Least level that is logged: debug, info, warn or error (${default})."`
	LogFormat string     `group:"Process" env:"DULY_LOG_FORMAT" enum:"json,text" default:"${log_format}" placeholder:"json|text" help:"One JSON object a line, or text for people (${default})."`
}

// AfterApply makes the process log as told.
func (s *LogSettings) AfterApply(p *Process) error {
	p.Log = NewLogger(p.Stderr, s.LogLevel, s.LogFormat == "text")
	return nil
}

// setting is a setting that may be given as a value or as a file that holds it.
type setting struct{ what, flag, env, example string }

func (s setting) resolve(value *string, file string) error {
	switch {
	case *value != "" && file != "":
		return fmt.Errorf("the %s is given twice: use either %s (%s) or %s-file (%s_FILE)", s.what, s.flag, s.env, s.flag, s.env)
	case *value == "" && file == "":
		return fmt.Errorf("where is the %s? Give %s or set %s or %s_FILE, such as %s", s.what, s.flag, s.env, s.env, s.example)
	case file == "":
		return nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the %s from %s-file (%s_FILE): %w", s.what, s.flag, s.env, err)
	}
	if *value = strings.TrimSpace(string(content)); *value == "" {
		return fmt.Errorf("reading the %s from %s-file (%s_FILE): %w", s.what, s.flag, s.env, errors.New(file+" is empty"))
	}
	return nil
}
