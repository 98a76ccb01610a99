package importer_test

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/internal/importer"
	"duly.dev/duly/pkg/job"
)

func itoa(n int) string { return strconv.Itoa(n) }

const header = "kind,key,subject,period,destination,due,deadline,zone,payload\n"

func TestEveryColumnReachesTheJob(t *testing.T) {
	t.Parallel()
	got := importText(t, importer.CSV, header+
		`mail,renewal:1,customer-1,2099-W40,a@example.com,2099-09-01T08:00:00Z,2099-09-30T17:00,Europe/Paris,"{""name"":""Ann, B.""}"`+"\n")
	require.Equal(t, importer.Counts{Rows: 1, Jobs: 1}, got.Counts)
	require.Equal(t, []job.Spec{{
		Kind: "mail", Key: "renewal:1", Subject: "customer-1", Period: "2099-W40", Destination: "a@example.com",
		Payload: []byte(`{"name":"Ann, B."}`),
		Due:     time.Date(2099, 9, 1, 8, 0, 0, 0, time.UTC), Deadline: time.Date(2099, 9, 30, 15, 0, 0, 0, time.UTC),
		DeadlineZone: "Europe/Paris", DeadlineLocal: "2099-09-30T17:00:00",
	}}, got.door.jobs)
}

func TestColumnsMayComeInAnyOrderAndBeLeftOut(t *testing.T) {
	t.Parallel()
	got := importText(t, importer.CSV, "payload,key,kind\n1,a,mail\n\"[1,2]\",b,hook\n")
	require.Equal(t, []string{"a", "b"}, got.door.keys())
	require.Equal(t, []byte("[1,2]"), got.door.jobs[1].Payload)
}

func TestPayloadColumnsMakeOneObjectWhateverTheirOrder(t *testing.T) {
	t.Parallel()
	one := importText(t, importer.CSV, "kind,key,payload.name,payload.amount,payload.note\nmail,a,\"Ann \"\"B\"\" <x>\",12.50,\n")
	two := importText(t, importer.CSV, "payload.note,payload.amount,payload.name,kind,key\n,12.50,\"Ann \"\"B\"\" <x>\",mail,a\n")
	require.JSONEq(t, `{"amount":"12.50","name":"Ann \"B\" <x>","note":""}`, string(one.door.jobs[0].Payload))
	require.Equal(t, one.door.jobs[0].BodyHash(), two.door.jobs[0].BodyHash())
}

func TestHeadersAreRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"unknown columns":    {"kind,key,payload,dedline,Zone\n", []string{`column "dedline": no such field`, `column "Zone": no such field`}},
		"twice":              {"kind,key,key,payload\n", []string{`column "key": it must be given once`}},
		"missing":            {"subject\n", []string{`column "kind": it must be given`, `column "key": it must be given`, `column "payload": it must be given`}},
		"two payloads":       {"kind,key,payload,payload.name\n", []string{`column "payload": it must be given once`}},
		"a nameless member":  {"kind,key,payload.\n", []string{`column "payload.": no such field`}},
		"no columns at all":  {"", []string{"the file is empty"}},
		"only blank lines":   {"\n\n", []string{"the file is empty"}},
		"broken quoting":     {"kind,\"key\n", []string{"the header: row: quotes must enclose"}},
		"another separator":  {"kind;key;payload\n", []string{`column "kind;key;payload": no such field`}},
		"another encoding":   {"\xff\xfek\x00i\x00\n", []string{"UTF-16"}},
		"not even the kinds": {"\x80\n", []string{"column", "no such field"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tryText(importer.CSV, c.text)
			require.Error(t, err)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.Zero(t, got.Counts)
			require.Empty(t, got.door.jobs)
		})
	}
}

func TestOneBrokenRowNeverCostsItsNeighbours(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		broken string
		want   []string // line, field, rule
	}{
		"a quote that is never closed":        {`mail,x,"oops`, []string{"3 row quoting"}},
		"a quote inside a field":              {`mail,x,o"ops`, []string{"3 row quoting"}},
		"text behind a closing quote":         {`mail,x,"1"2`, []string{"3 row quoting"}},
		"a quote that the next row's closes":  {"mail,x,\"oops\nmail,b1,\"1\"", []string{"3 row quoting"}},
		"two broken quotes that would pair":   {"mail,x,\"1\nmail,y,1\nmail,z,2\"", []string{"3 row quoting", "5 row quoting"}},
		"too few fields":                      {`mail,x`, []string{"3 row columns"}},
		"too many fields":                     {`mail,x,1,2`, []string{"3 row columns"}},
		"invalid UTF-8":                       {"mail,x\xff,1", []string{"3 key utf8"}},
		"an invalid payload":                  {`mail,x,{`, []string{"3 payload json"}},
		"a payload of invalid UTF-8":          {"mail,x,\"\"\"\xff\"\"\"", []string{"3 payload utf8"}},
		"an empty payload":                    {`mail,x,`, []string{"3 payload required"}},
		"a payload over the limit":            {`mail,x,"""` + strings.Repeat("x", 1100) + `"""`, []string{"3 payload too_large"}},
		"a row over the limit":                {`mail,x,` + strings.Repeat("9", 100_000), []string{"3 row too_long"}},
		"an unknown kind":                     {`mial,x,1`, []string{"3 kind unknown_kind"}},
		"a kind that is no name":              {`Mail,x,1`, []string{"3 kind name"}},
		"no key, no kind":                     {`,,1`, []string{"3 kind required", "3 key required"}},
		"a key over the limit":                {`mail,` + strings.Repeat("k", 600) + `,1`, []string{"3 key too_long"}},
		"a key that is not NFC":               {"mail,e\u0301,1", []string{"3 key nfc"}},
		"a key that ends in a space":          {"mail,x ,1", []string{"3 key no_outer_space"}},
		"a key with a control character":      {"mail,x\x00,1", []string{"3 key printable"}},
		"a key of an earlier row, other body": {"mail,a,7", []string{"3 key conflict"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := importText(t, importer.CSV, "kind,key,payload\nmail,a,1\n"+c.broken+"\nmail,b,\"2\"\nhook,c,3\n")
			require.Equal(t, c.want, got.rules())
			require.Subset(t, got.door.keys(), []string{"a", "b", "c"})
			require.NotContains(t, got.door.keys(), "x")
		})
	}
}

func TestAQuoteThatNeverClosesCostsOneRowOfAMillion(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("kind,key,payload\nmail,broken,\"oops\n")
	for i := range 20_000 { // more than a row may be long
		text.WriteString("mail,k" + itoa(i) + ",1\n")
	}
	got := importText(t, importer.CSV, text.String())
	require.Equal(t, importer.Counts{Rows: 20_001, Jobs: 20_000, Refused: 1}, got.Counts)
	require.Equal(t, []string{"2 row quoting"}, got.rules())
}

func TestAFieldMayHoldLinesQuotesAndCommas(t *testing.T) {
	t.Parallel()
	got := importText(t, importer.CSV, "kind,key,payload.text\r\nmail,a,\"one,\r\n\"\"two\"\"\r\n\r\nthree\"\r\nmail,b,x\r\n")
	require.JSONEq(t, `{"text":"one,\n\"two\"\n\nthree"}`, string(got.door.jobs[0].Payload))
	require.Equal(t, []string{"a", "b"}, got.door.keys())
}

func TestByteOrderMarkBlankLinesAndAMissingLastLineEndAreNoRows(t *testing.T) {
	t.Parallel()
	got := importText(t, importer.CSV, "\xef\xbb\xbfkind,key,payload\n\nmail,a,1\n  \nmail,b,1")
	require.Equal(t, importer.Counts{Rows: 2, Jobs: 2}, got.Counts)
}

func TestRefusalsNameTheLineWhereTheRowBegins(t *testing.T) {
	t.Parallel()
	got := importText(t, importer.CSV, "kind,key,payload.a\nmail,a,\"x\ny\"\n\nmial,b,\"x\ny\"\n")
	require.Equal(t, []string{"5 kind unknown_kind"}, got.rules())
	require.Equal(t, importer.Refused{
		Line: 5, Kind: "mial", Key: "b", Field: "kind", Value: "mial", Rule: job.RuleUnknownKind, Text: job.RuleUnknownKind.Text(),
	}, got.refused[0])
}

func TestPayloadsAreNeverShownInReports(t *testing.T) {
	t.Parallel()
	got := importText(t, importer.CSV, "kind,key,payload\nmail,a,{secret\nmail,b,sec\"ret\nmail,c,secret\xff\n")
	require.Len(t, got.refused, 3)
	for _, r := range got.refused {
		require.NotContains(t, r.Value+r.Text, "secret")
	}
}

// What encoding/csv reads, this package reads alike.
func TestWellFormedFilesReadAsTheStandardLibraryReadsThem(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.SliceOfN(rapid.StringMatching(`[ab", \n]{0,6}`), 2, 2)
		rows := rapid.SliceOfN(fields, 1, 6).Draw(t, "rows")
		var text strings.Builder
		w := csv.NewWriter(&text)
		require.NoError(t, w.Write([]string{"kind", "key", "payload.a", "payload.b"}))
		for i, f := range rows {
			require.NoError(t, w.Write([]string{"mail", itoa(i), f[0], f[1]}))
		}
		w.Flush()
		got, err := tryText(importer.CSV, text.String())
		require.NoError(t, err)
		require.Equal(t, importer.Counts{Rows: len(rows), Jobs: len(rows)}, got.Counts)
		for i, s := range got.door.jobs {
			require.JSONEq(t, `{"a":`+strconv.Quote(rows[i][0])+`,"b":`+strconv.Quote(rows[i][1])+`}`, string(s.Payload))
		}
	})
}

func FuzzAnythingIsReadToItsEndAndBalanced(f *testing.F) {
	for _, seed := range []string{
		"mail,a,1\n", "\"", "\"\"", "mail,\"a\n\",1", "a\r\n\"b", ",,\n", "mail,a,\"1\"\"\"\n", "\xff,\x00,\"", "\n\n\"x\ny\"\nz",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		got, err := tryText(importer.CSV, "kind,key,payload.a\n"+rest+"\nmail,last,1\n")
		if err != nil {
			t.Fatal(err)
		}
		if !got.Balanced() {
			t.Fatalf("%+v", got.Counts)
		}
		r := csv.NewReader(strings.NewReader(rest + "\nmail,last,1\n"))
		r.FieldsPerRecord = 3
		for n := 0; ; n++ {
			if _, err := r.Read(); err == io.EOF {
				if n != got.Rows {
					t.Fatalf("%d rows, the standard library reads %d", got.Rows, n)
				}
				return
			} else if err != nil {
				return
			}
		}
	})
}
