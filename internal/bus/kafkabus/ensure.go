package kafkabus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"duly.dev/duly/internal/bus"
)

// Ensure creates the topics of the lanes, of the delays and of the notices, or verifies
// those that exist. All that is unsafe is reported at once, each with bus.ErrUnsafe, the
// name of the topic and the setting, and what it must be.
func (b *Bus) Ensure(ctx context.Context, lanes []string) error {
	var errs []error
	topics := append([]topic{deadTopic(b.options.Prefix)}, b.tiers...)
	for _, lane := range lanes {
		t, err := workTopic(b.options.Prefix, lane)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		topics = append(topics, t)
	}
	_, err := b.ensure(ctx, b.closed, topics...)
	return errors.Join(append(errs, err)...)
}

// ensure finds or makes the topics and returns their ids. Callers that want the same at
// the same time share one answer; each waits until its ctx ends or quit is closed.
func (b *Bus) ensure(ctx context.Context, quit <-chan struct{}, topics ...topic) (map[string]kadm.TopicID, error) {
	if b.ended() {
		return nil, bus.ErrClosed
	}
	answer := b.ensuring.DoChan(fmt.Sprint(namesOf(topics)), func() (any, error) {
		asked, cancel := context.WithTimeout(b.ctx, apiTimeout)
		defer cancel()
		return b.findOrMake(asked, topics)
	})
	select {
	case r := <-answer:
		return r.Val.(map[string]kadm.TopicID), r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-quit:
		return nil, bus.ErrClosed
	}
}

// findOrMake makes what is not there, waits until the brokers know of it, and checks all.
func (b *Bus) findOrMake(ctx context.Context, topics []topic) (map[string]kadm.TopicID, error) {
	details, err := b.describe(ctx, topics)
	if err != nil {
		return nil, err
	}
	var missing []topic
	for _, t := range topics {
		if errors.Is(details[t.name].Err, kerr.UnknownTopicOrPartition) {
			missing = append(missing, t)
		}
	}
	if err := b.make(ctx, missing); err != nil {
		return nil, err
	}
	if details, err = b.settled(ctx, topics, details); err != nil {
		return nil, err
	}
	if err := b.check(ctx, topics, details); err != nil {
		return nil, err
	}
	ids := make(map[string]kadm.TopicID, len(topics))
	for _, t := range topics {
		ids[t.name] = details[t.name].ID
		b.noteTopic(t, details[t.name].ID)
	}
	return ids, nil
}

// describe asks for the topics; those that are not there have an error in their detail.
func (b *Bus) describe(ctx context.Context, topics []topic) (kadm.TopicDetails, error) {
	// Asked with the rights to them, since the client would answer from memory otherwise.
	details, err := b.admin.ListTopics(kadm.WithAuthorizedOps(ctx), namesOf(topics)...)
	if err != nil {
		return nil, fmt.Errorf("asking for topics: %w", err)
	}
	return details, nil
}

// make makes topics; one that another process makes just now is as good.
func (b *Bus) make(ctx context.Context, topics []topic) error {
	if len(topics) == 0 {
		return nil
	}
	replicas, err := b.replicas(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range topics {
		made, err := b.makeOne(ctx, t, replicas)
		switch {
		case err == nil:
			b.noteMade(ctx, t, made.ID)
		case !errors.Is(err, kerr.TopicAlreadyExists):
			errs = append(errs, fmt.Errorf("making topic %s: %w", t.name, explain(made, err)))
		}
	}
	return errors.Join(errs...)
}

// makeOne makes one topic.
func (b *Bus) makeOne(ctx context.Context, t topic, replicas int) (kadm.CreateTopicResponse, error) {
	configs := map[string]*string{}
	for name, value := range b.options.createConfigs(t, replicas) {
		configs[name] = &value
	}
	partitions := 1 // of what is kept in one order
	if t.purpose == forWork {
		partitions = b.options.Partitions
	}
	//nolint:gosec // both are small
	made, err := b.admin.CreateTopic(ctx, int32(partitions), int16(replicas), configs, t.name)
	if errors.Is(err, kerr.InvalidConfig) { // what speaks Kafka's protocol need not know unclean elections
		delete(configs, uncleanElection)
		made, err = b.admin.CreateTopic(ctx, int32(partitions), int16(replicas), configs, t.name) //nolint:gosec // as above
	}
	return made, err
}

// explain adds what the broker said in words.
func explain(r kadm.CreateTopicResponse, err error) error {
	if r.ErrMessage != "" {
		return fmt.Errorf("%w (%s)", err, r.ErrMessage)
	}
	return err
}

// replicas is how many a topic that is made gets.
func (b *Bus) replicas(ctx context.Context) (int, error) {
	if b.options.Replicas > 0 {
		return b.options.Replicas, nil
	}
	brokers, err := b.admin.ListBrokers(ctx)
	if err != nil {
		return 0, fmt.Errorf("asking for brokers: %w", err)
	}
	return max(1, min(3, len(brokers))), nil
}

// settled waits until the broker that answers knows all topics with a leader of each
// partition: news of what was made or deleted travels from broker to broker.
func (b *Bus) settled(ctx context.Context, topics []topic, details kadm.TopicDetails) (kadm.TopicDetails, error) {
	for wait := settlePause; ; wait = min(2*wait, time.Second) {
		err := unsettled(topics, details)
		if err == nil {
			return details, nil
		}
		if pauseErr := bus.Pause(ctx, wait, b.closed); pauseErr != nil {
			return nil, fmt.Errorf("%w (%w)", err, pauseErr)
		}
		if details, err = b.describe(ctx, topics); err != nil {
			return nil, err
		}
	}
}

const settlePause = 20 * time.Millisecond

func unsettled(topics []topic, details kadm.TopicDetails) error {
	for _, t := range topics {
		d, ok := details[t.name]
		if err := d.Err; !ok || err != nil {
			return fmt.Errorf("topic %s: %w", t.name, errors.Join(errNotThere, err))
		}
		for _, p := range d.Partitions {
			if p.Err != nil {
				return fmt.Errorf("topic %s: partition %d: %w", t.name, p.Partition, p.Err)
			}
		}
		if len(d.Partitions) == 0 {
			return fmt.Errorf("topic %s: %w", t.name, errNotThere)
		}
	}
	return nil
}

var errNotThere = errors.New("the brokers do not know it")

// check refuses unsafe topics.
func (b *Bus) check(ctx context.Context, topics []topic, details kadm.TopicDetails) error {
	all, err := b.admin.DescribeTopicConfigs(ctx, namesOf(topics)...)
	if err != nil {
		return fmt.Errorf("asking for the settings of topics: %w", err)
	}
	var errs []error
	for _, t := range topics {
		resource, err := all.On(t.name, nil)
		if err == nil {
			err = resource.Err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("asking for the settings of topic %s: %w", t.name, err))
			continue
		}
		configs := map[string]string{}
		for _, c := range resource.Configs {
			configs[c.Key] = c.MaybeValue()
		}
		d := details[t.name]
		if d.ID == (kadm.TopicID{}) {
			errs = append(errs, fmt.Errorf("%w: topic %s has no id: Kafka 2.8 or newer is needed, which tells a topic from one that was deleted", bus.ErrUnsafe, t.name))
		}
		errs = append(errs, checkTopic(t, d.Partitions.NumReplicas(), len(d.Partitions), configs))
	}
	return errors.Join(errs...)
}

// noteTopic remembers which topic has the name now. The client would go on with the one
// that it saw first, so it is told to forget it.
func (b *Bus) noteTopic(t topic, id kadm.TopicID) {
	b.mu.Lock()
	before, seen := b.known[t.name]
	b.known[t.name] = id
	b.topics[t.name] = t
	b.mu.Unlock()
	if !seen || before == id {
		return
	}
	b.spread.forget(t.name)
	b.client.PurgeTopicsFromClient(t.name)
	b.metrics.recreated.WithLabelValues(t.label).Inc()
	b.options.Log.Error("a topic was gone and was made anew; the ledger will find what was lost with it", "topic", t.name)
}

func (b *Bus) noteMade(ctx context.Context, t topic, id kadm.TopicID) {
	b.options.Log.InfoContext(ctx, "made a topic", "topic", t.name, "id", id.String())
}
