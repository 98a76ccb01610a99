// Mkrenewals writes examples/renewals.csv: mkrenewals FILE. The same program always
// writes the same file.
package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
)

// Rows by what their destination's receiver does with them; internal/demo has the
// receivers' side.
var mail = []group{
	{"example.com", 310},
	{"example.org", 210},
	{"example.net", 100},
	{"greylisting.example", 50},
	{"busy.example", 30},
	{"unplugged.example", 15},
	{"slow.example", 20},
	{"exmaple.com", 6}, // a slip of the pen
	{"moved-away.example", 8},
	{"mailbox-full.example", 6},
	{"spam-filter.example", 8},
	{"down.example", 5},
	{"hangs-up.example", 12},
}

var hooks = []group{
	{"crm", 260},
	{"throttled", 40},
	{"overloaded", 20},
	{"slow", 20},
	{"late", 6},
	{"hangs-up", 20},
	{"acts-then-fails", 15},
	{"rejects", 8},
	{"gone", 5},
	{"closed", 6},
}

type group struct {
	where string
	rows  int
}

var (
	given = []string{
		"Ada", "Björn", "Chiara", "Dmitri", "Élodie", "Fatima", "Giulia", "Haruto", "Ingrid", "João", "Kwame", "Léa", "Mehmet",
		"Ngozi", "Olga", "Priya", "Quentin", "Rosa", "Søren", "Thandiwe", "Uma", "Viktor", "Wanjiru", "Xavier", "Yuki", "Zoë",
	}
	family = []string{
		"Almeida", "Bauer", "Castro", "Dubois", "Eriksen", "Fischer", "García", "Hughes", "Ito", "Janssen", "Kovač", "Lindqvist",
		"Moreau", "Nakamura", "Okafor", "Patel", "Quispe", "Rossi", "Silva", "Tanaka", "Usman", "Vogel", "Walsh", "Yılmaz", "Zhang",
	}
	plans   = []string{"Basic", "Family", "Pro", "Business"}
	amounts = []string{"29.00 EUR", "49.90 EUR", "120.00 USD", "3,400 JPY", "89.00 GBP"}
	zones   = []string{
		"Europe/Paris", "Europe/Paris", "Europe/Berlin", "Europe/London", "America/New_York", "America/Sao_Paulo", "Asia/Tokyo",
		"Asia/Kolkata", "Australia/Sydney", "Africa/Lagos", "Pacific/Auckland",
	}
)

// refused are rows that no import may take, for every rule that a row can break.
var refused = []string{
	`,renewal:2026-10:r-1,customer-9001,2026-10,a@example.com,,+10m,Europe/Paris,"{""name"":""A""}"`,
	`renewal-remainder,renewal:2026-10:r-2,customer-9002,2026-10,a@example.com,,+10m,Europe/Paris,"{""name"":""A""}"`,
	`Renewal Reminder,renewal:2026-10:r-3,customer-9003,2026-10,a@example.com,,+10m,Europe/Paris,"{""name"":""A""}"`,
	`renewal-reminder,,customer-9004,2026-10,a@example.com,,+10m,Europe/Paris,"{""name"":""A""}"`,
	"renewal-reminder,renewal:2026-10:r-5,customer-\xe9,2026-10,a@example.com,,+10m,Europe/Paris,\"{\"\"name\"\":\"\"A\"\"}\"",
	"renewal-reminder,renewal:2026-10:r-6\a,customer-9006,2026-10,a@example.com,,+10m,Europe/Paris,\"{\"\"name\"\":\"\"A\"\"}\"",
	"renewal-reminder,renewal:2026-10:Zoe\u0308,customer-9007,2026-10,a@example.com,,+10m,Europe/Paris,\"{\"\"name\"\":\"\"A\"\"}\"",
	`renewal-reminder,renewal:2026-10:r-8 ,customer-9008,2026-10,a@example.com,,+10m,Europe/Paris,"{""name"":""A""}"`,
	`renewal-reminder,renewal:2026-10:r-10,customer-9010,2026-10,a@example.com,,+10m,Europe/Paris,"{""name"":""A"""`,
	`renewal-reminder,renewal:2026-10:r-11,customer-9011,2026-10,a@example.com,,+10m,Europe/Paris,`,
	`renewal-reminder,renewal:2026-10:r-13,customer-9013,2026-10,a@example.com,+30s,+20s,Europe/Paris,"{""name"":""A""}"`,
	`renewal-reminder,renewal:2026-10:r-14,customer-9014,2026-10,a@example.com,,-1h,Europe/Paris,"{""name"":""A""}"`,
	`renewal-reminder,renewal:2026-10:r-15,customer-9015,2026-10,a@example.com,,2206-10-31T17:00,Europe/Paris,"{""name"":""A""}"`,
	`renewal-reminder,renewal:2026-10:r-16,customer-9016,2026-10,a@example.com,,2099-10-31T17:00,Europe/Pari,"{""name"":""A""}"`,
	`renewal-reminder,renewal:2026-10:r-17,customer-9017,2026-10,a@example.com,,5 PM,,"{""name"":""A""}"`,
	`renewal-reminder,renewal:2026-10:r-18,customer-9018,2026-10,a@example.com,,2099-02-30T17:00,Europe/Paris,"{""name"":""A""}"`,
	`renewal-reminder,renewal:2026-10:r-19,customer-9019,2026-10,a@example.com,,2099-10-31T17:00,,"{""name"":""A""}"`,
	`renewal-reminder,renewal:2026-10:r-20,customer-9020,2026-10,no address,,+10m,Europe/Paris,"{""name"":""A""}"`,
	`renewal-reminder,renewal:2026-10:r-21,customer-9021,2026-10,,,+10m,Europe/Paris,"{""name"":""A""}"`,
	`renewal-webhook,renewal:2026-10:r-22,customer-9022,2026-10,ftp://127.0.0.1/crm,,+10m,,"{""name"":""A""}"`,
	`renewal-webhook,renewal:2026-10:r-23,customer-9023,2026-10,http://169.254.169.254/latest/meta-data,,+10m,,"{""name"":""A""}"`,
	`renewal-reminder,renewal:2026-10:r-24,customer-9024,2026-10,a@example.com,,+10m`,
	`renewal-reminder,renewal:2026-10:r-25,"customer-9025,2026-10,a@example.com,,+10m,Europe/Paris,"{""name"":""A""}"`,
}

// generator draws from a fixed seed.
type generator struct {
	*rand.Rand
	customer int
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: mkrenewals FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], file(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "mkrenewals:", err)
		os.Exit(1)
	}
}

// file makes the whole file: all kinds of rows, shuffled.
func file() []byte {
	g := generator{rand.New(rand.NewPCG(2026, 10)), 1000}
	var rows []string
	for _, m := range mail {
		for range m.rows {
			rows = append(rows, g.reminder(m.where))
		}
	}
	for _, h := range hooks {
		for range h.rows {
			rows = append(rows, g.webhook(h.where))
		}
	}
	copies := []string{rows[0], rows[7], rows[7], rows[301], rows[777], rows[850], rows[1100]}
	rows = append(rows, refused...)
	rows = append(rows, long("renewal-reminder,renewal:2026-10:"), large())
	g.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	rows = append(rows, copies...)
	rows = append(rows, conflict(copies[0]))

	var b bytes.Buffer
	b.WriteString("kind,key,subject,period,destination,due,deadline,zone,payload\n")
	for _, r := range rows {
		b.WriteString(r)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func (g *generator) reminder(domain string) string {
	g.customer++
	first, last := g.IntN(len(given)), g.IntN(len(family))
	address := fmt.Sprintf("customer-%d@%s", g.customer, domain)
	return fmt.Sprintf("renewal-reminder,renewal:2026-10:customer-%d,customer-%d,2026-10,%s,%s,%s,%s,%s",
		g.customer, g.customer, address, g.due(), g.deadline(), g.pick(zones), g.payload(given[first]+" "+family[last]))
}

func (g *generator) webhook(path string) string {
	g.customer++
	zone, deadline := g.pick(zones), g.deadline()
	if path == "closed" { // it asks to come back after this
		deadline = "+25s"
	}
	url := fmt.Sprintf("http://127.0.0.1:8025/%s/contracts/%d", path, g.customer)
	return fmt.Sprintf("renewal-webhook,renewal:2026-10:customer-%d,customer-%d,2026-10,%s,%s,%s,%s,%s",
		g.customer, g.customer, url, g.due(), deadline, zone, g.payload(g.pick(given)+" "+g.pick(family)))
}

// due is now for half of the rows, and in the next seconds for the others.
func (g *generator) due() string {
	if g.IntN(2) == 0 {
		return ""
	}
	return fmt.Sprintf("+%ds", 1+g.IntN(9))
}

func (g *generator) deadline() string {
	return g.pick([]string{"+10m", "+30m", "+2h", "+48h"})
}

func (g *generator) payload(name string) string {
	return fmt.Sprintf(`"{""name"":""%s"",""contract"":""CN-%d"",""plan"":""%s"",""amount"":""%s"",""ends"":""2026-10-%02d""}"`,
		name, 10_000+g.IntN(90_000), g.pick(plans), g.pick(amounts), 1+g.IntN(31))
}

func (g *generator) pick(from []string) string { return from[g.IntN(len(from))] }

// long is a row whose key is over the limit.
func long(begin string) string {
	return begin + string(bytes.Repeat([]byte("r"), 500)) + `,customer-9026,2026-10,a@example.com,,+10m,Europe/Paris,"{""name"":""A""}"`
}

// large is a row whose payload is over the limit of examples/duly.yaml.
func large() string {
	note := string(bytes.Repeat([]byte("all work and no play "), 250))
	return `renewal-reminder,renewal:2026-10:r-27,customer-9027,2026-10,a@example.com,,+10m,Europe/Paris,"{""name"":""A"",""note"":""` + note + `""}"`
}

// conflict is a row again, with another payload.
func conflict(row string) string {
	at := strings.LastIndexByte(row, '}')
	return row[:at] + `,""note"":""changed""` + row[at:]
}
