package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/examples"
	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/internal/channel/smtpchan"
	"duly.dev/duly/pkg/job"
)

// bench is both receivers, and the channels of the example configuration to reach them.
type bench struct {
	mailLog, hookLog string
	mail, hook       channel.Channel
	hooks            *hookServer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{mailLog: filepath.Join(t.TempDir(), "mail"), hookLog: filepath.Join(t.TempDir(), "hooks")}
	m, err := startMail("127.0.0.1:0", b.mailLog, mailAt, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.stop(context.Background())) })
	b.hooks, err = startHooks("127.0.0.1:0", b.hookLog)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.hooks.stop(context.Background())) })

	config, err := app.ParseConfig("duly.yaml", renderConfig(examples.Config, m.address()))
	require.NoError(t, err)
	reminder, ok := config.Kind("renewal-reminder")
	require.True(t, ok)
	require.Equal(t, m.address(), reminder.SMTP.Server)
	b.mail, err = smtpchan.New(*reminder.SMTP)
	require.NoError(t, err)
	hook, ok := config.Kind("renewal-webhook")
	require.True(t, ok)
	b.hook, err = httpchan.New(*hook.HTTP, hook.Promises.Window)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, b.mail.Close())
		require.NoError(t, b.hook.Close())
	})
	return b
}

// try performs one attempt and returns its end, as "outcome class code".
func (b *bench) try(t *testing.T, c channel.Channel, key, destination string) string {
	limit := 30 * time.Second
	if strings.Contains(destination, "/late/") {
		limit = 500 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r := c.Deliver(ctx, channel.Effect{
		Kind: "k", Key: key, Destination: destination, Generation: 1, Attempt: 1, EffectKey: job.WireEffectKey("k", key, 1, c.Name()),
		Payload: []byte(`{"name":"Ada","contract":"CN-1","plan":"Pro","amount":"1 EUR","ends":"2026-10-01"}`),
		Begin:   func() error { return nil },
	})
	if r.Outcome == job.OutcomeDelivered && c.Name() == "http" {
		require.Equal(t, "receipt-k/"+key+":1:http", r.Receipt.ID)
	}
	return strings.TrimRight(fmt.Sprintf("%s %s %s", r.Outcome, r.Class, r.Code), " ")
}

// Every behaviour, as a channel sees it: what comes of each try, and what was seen.
func TestReceiversMisbehaveAsPlanned(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tested := 0
	for destination, c := range map[string]struct {
		tries            []string
		effects, repeats int
	}{
		"a@example.com":          {[]string{"delivered", "delivered"}, 2, 0}, // mail servers do not dedupe
		"a@greylisting.example":  {[]string{"failed transient GREYLISTED", "delivered"}, 1, 0},
		"a@busy.example":         {[]string{"failed transient RECEIVER_BUSY", "failed transient RECEIVER_BUSY", "delivered"}, 1, 0},
		"a@unplugged.example":    {nil, 1, 0}, // a kept session is replaced within the try
		"a@slow.example":         {[]string{"delivered"}, 1, 0},
		"a@exmaple.com":          {[]string{"failed permanent DESTINATION_INVALID", "failed permanent DESTINATION_INVALID"}, 0, 0},
		"a@moved-away.example":   {[]string{"failed permanent DESTINATION_INVALID"}, 0, 0},
		"a@mailbox-full.example": {[]string{"failed permanent REJECTED"}, 0, 0},
		"a@spam-filter.example":  {[]string{"failed permanent REJECTED"}, 0, 0},
		"a@down.example":         {[]string{"failed transient RECEIVER_BUSY", "failed transient RECEIVER_BUSY", "failed transient RECEIVER_BUSY"}, 0, 0},
		"a@hangs-up.example":     {[]string{"unknown  CONNECTION_LOST"}, 1, 0},

		"http:/crm/1":             {[]string{"delivered", "delivered"}, 1, 1},
		"http:/throttled/1":       {[]string{"failed transient THROTTLED", "delivered"}, 1, 0},
		"http:/overloaded/1":      {[]string{"unknown  SERVER_ERROR", "unknown  SERVER_ERROR", "delivered"}, 1, 0},
		"http:/slow/1":            {[]string{"delivered"}, 1, 0},
		"http:/late/1":            {[]string{"unknown  TIMEOUT", "delivered"}, 1, 1},
		"http:/hangs-up/1":        {[]string{"unknown  CONNECTION_LOST", "delivered"}, 1, 1},
		"http:/acts-then-fails/1": {[]string{"unknown  SERVER_ERROR", "delivered"}, 1, 1},
		"http:/rejects/1":         {[]string{"failed permanent REJECTED", "failed permanent REJECTED"}, 0, 0},
		"http:/gone/1":            {[]string{"failed permanent DESTINATION_GONE"}, 0, 0},
		"http:/closed/1":          {[]string{"failed transient THROTTLED"}, 0, 0},
	} {
		tested++
		t.Run(destination, func(t *testing.T) {
			t.Parallel()
			path, isHook := strings.CutPrefix(destination, "http:")
			key, log, c2, to := "key-"+strings.NewReplacer("/", "-", "@", "-").Replace(destination), b.mailLog, b.mail, destination
			if isHook {
				log, c2, to = b.hookLog, b.hook, "http://"+b.hooks.address()+path
			}
			for i := 0; c.tries == nil; i++ {
				got := b.try(t, c2, key, to)
				if got == "delivered" {
					break
				}
				require.Equal(t, "failed transient UNREACHABLE", got)
				require.Less(t, i, 2)
			}
			for i, want := range c.tries {
				require.Equal(t, want, b.try(t, c2, key, to), "try %d", i+1)
			}
			book, err := readLogbook(log)
			require.NoError(t, err)
			effectKey := claim{Kind: "k", Key: key, Channel: c2.Name(), Generation: 1}.effectKeys()[0]
			var seen []sighting
			for _, s := range book {
				if s.Effect == effectKey {
					seen = append(seen, s)
				}
			}
			require.Equal(t, c.effects, effects(seen)[effectKey])
			require.Equal(t, c.repeats, repeats(seen))
		})
	}
	require.Equal(t, len(mailPlan)+len(hookPlan)+2, tested, "every behaviour is tested")
}

func TestAReceiverThatDedupesActsOnceWhenAskedManyTimesAtOnceAndAfterARestart(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "hooks")
	for restart := range 2 {
		h, err := startHooks("127.0.0.1:0", log)
		require.NoError(t, err)
		var asked sync.WaitGroup
		for range 8 {
			asked.Go(func() { _ = h.act("one key", "/crm/1") })
		}
		asked.Wait()
		require.NoError(t, h.stop(context.Background()))
		book, err := readLogbook(log)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"one key": 1}, effects(book))
		require.Equal(t, 8*(restart+1)-1, repeats(book))
	}
}

func TestPlansTellWhereEveryDestinationMustEnd(t *testing.T) {
	t.Parallel()
	for destination, want := range map[string]job.State{
		"x@example.org": job.Delivered, "x@Hangs-Up.example": job.Unknown, "x@" + typo: job.Quarantined,
		"http://127.0.0.1:80/crm/contracts/1": job.Delivered, "http://127.0.0.1:80/closed/contracts/1": job.Quarantined,
		"http://127.0.0.1:80/hangs-up/contracts/1": job.Delivered,
	} {
		_, b, _ := planned(destination)
		require.Equal(t, want, b.ends, destination)
	}
}
