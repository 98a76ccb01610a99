package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"duly.dev/duly/internal/bus"
)

// truncating removes acknowledged messages now and then, until ctx ends.
func (b *Bus) truncating(ctx context.Context) error {
	for {
		if err := bus.Pause(ctx, b.options.tune.truncate, b.closed); err != nil {
			return err
		}
		if err := b.truncate(ctx); err != nil && ctx.Err() == nil {
			b.options.Log.WarnContext(ctx, "removing acknowledged messages; trying again", "error", err)
		}
	}
}

// truncate removes from every topic of work and delays that this bus has used what its
// group has committed. What a consumer has in hand, or acknowledged behind a hole, is not
// committed. A topic without an end of retention would otherwise grow with its history.
func (b *Bus) truncate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	b.mu.Lock()
	topics := slices.Collect(maps.Values(b.topics))
	b.mu.Unlock()
	errs := []error{b.truncateGroup(ctx, b.options.Prefix+".retry", b.tiers)}
	for _, t := range topics {
		if t.purpose == forWork {
			errs = append(errs, b.truncateGroup(ctx, t.name, []topic{t}))
		}
	}
	return errors.Join(errs...)
}

// truncateGroup removes what the group of the topics has committed.
func (b *Bus) truncateGroup(ctx context.Context, base string, topics []topic) error {
	details, err := b.describe(ctx, topics)
	if err != nil {
		return err
	}
	ids := map[string]kadm.TopicID{}
	for _, t := range topics {
		if details[t.name].Err != nil {
			return nil //nolint:nilerr // it is not there, or not known: nothing to remove
		}
		ids[t.name] = details[t.name].ID
	}
	// The group is that of these very topics: what was committed for others of their names
	// is never applied to them.
	group := groupName(base, topics, ids)
	committed, err := b.admin.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil // nobody has received anything yet
	}
	if err != nil {
		return fmt.Errorf("asking for the offsets of group %s: %w", group, err)
	}
	begins, err := b.admin.ListStartOffsets(ctx, namesOf(topics)...)
	if err != nil {
		return fmt.Errorf("asking where topics begin: %w", err)
	}
	remove := kadm.Offsets{}
	removed := map[string]int64{}
	committed.Each(func(o kadm.OffsetResponse) {
		begin, ok := begins.Lookup(o.Topic, o.Partition)
		if o.Err == nil && ok && begin.Err == nil && o.At > begin.Offset {
			remove.AddOffset(o.Topic, o.Partition, o.At, -1)
			removed[labelIn(topics, o.Topic)] += o.At - begin.Offset
		}
	})
	if len(remove) == 0 {
		return nil
	}
	answers, err := b.admin.DeleteRecords(ctx, remove)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return fmt.Errorf("removing acknowledged messages: %w", err)
	}
	for label, n := range removed {
		b.metrics.truncated.WithLabelValues(label).Add(float64(n))
	}
	return nil
}

func labelIn(topics []topic, name string) string {
	for _, t := range topics {
		if t.name == name {
			return t.label
		}
	}
	return "none"
}
