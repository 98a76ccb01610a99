package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqTask is the type of the tasks whose handler does nothing.
const asynqTask = "no-op"

// asynqTuning is how asynq is run.
type asynqTuning struct {
	// producers enqueue one task each at once: there is no bulk enqueue.
	producers int
	// servers take tasks from the queue, each one after the other, and have so many
	// handlers each. Where throughput is not measured there are few.
	servers, few, handlers int
	// check is how often a server that found nothing looks again.
	check time.Duration
}

// asynqBest is what gave the most; see docs/performance.md.
var asynqBest = asynqTuning{producers: 256, servers: 64, few: 4, handlers: 16, check: time.Millisecond}

// asynqPeer is asynq in this process, on a Redis server of its own.
type asynqPeer struct {
	load   Load
	tuning asynqTuning

	program, redisVersion string
	redis                 *redisServer
	producers, workers    *redis.Client
	client                *asynq.Client
	servers               []*asynq.Server
	told                  func(task string) // that a task is durably done
}

func newAsynq(l Load) Contestant { return &asynqPeer{load: l, tuning: asynqBest} }

// Name is what tables show.
func (*asynqPeer) Name() string { return "asynq" }

// Version is that of the module and of Redis.
func (a *asynqPeer) Version() string {
	return fmt.Sprintf("%s on Redis %s", moduleVersion("github.com/hibiken/asynq"), a.redisVersion)
}

// Settings say how it is run.
func (a *asynqPeer) Settings() []Setting {
	t := a.tuning
	return []Setting{
		{"Redis", "appendonly yes, appendfsync always, save \"\": every answer follows an fsync of what it tells"},
		{"bulk", fmt.Sprintf("Enqueue from %d goroutines at once: it has no bulk enqueue", t.producers)},
		{"throughput", fmt.Sprintf("%d servers in one process with Concurrency %d each: a server takes one task after the other", t.servers, t.handlers)},
		{"latency and idle", fmt.Sprintf("%d servers with Concurrency %d each", t.few, t.handlers)},
		{"TaskCheckInterval", fmt.Sprintf("%s instead of 1s, which is how often a server looks that found nothing", t.check)},
		{"done", "Redis has answered the script that deletes the task; afterwards the queue is asked whether all were processed"},
		{"unequal", "a task is not enqueued in a transaction with the producer's data, which is elsewhere: single enqueues are one round trip; a task that is done is deleted; the log that Redis writes is not in the WAL"},
	}
}

// Prepare looks for Redis.
func (a *asynqPeer) Prepare(ctx context.Context, _ *Stack) error {
	var err error
	if a.program, err = exec.LookPath("redis-server"); err != nil {
		return Absent("redis-server is not in PATH")
	}
	out, err := exec.CommandContext(ctx, a.program, "--version").Output()
	if err != nil {
		return fmt.Errorf("redis-server --version: %w", err)
	}
	for word := range strings.FieldsSeq(string(out)) {
		if v, ok := strings.CutPrefix(word, "v="); ok {
			a.redisVersion = v
		}
	}
	return nil
}

// Open starts an empty Redis.
func (a *asynqPeer) Open(ctx context.Context, s *Stack) (err error) {
	if a.redis, err = startRedis(ctx, a.program, s.Dir); err != nil {
		return err
	}
	a.producers = a.redis.client(a.tuning.producers)
	a.workers = a.redis.client(a.tuning.servers * (a.tuning.handlers + 1))
	a.workers.AddHook(asynqHook{func(task string) { a.told(task) }})
	a.client = asynq.NewClientFromRedisClient(a.producers)
	return nil
}

// Close ends the servers and Redis.
func (a *asynqPeer) Close(context.Context) error {
	for _, s := range a.servers {
		s.Shutdown()
	}
	var err error
	for _, c := range []*redis.Client{a.producers, a.workers} {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	if a.redis != nil {
		err = errors.Join(err, a.redis.stop())
	}
	a.servers, a.producers, a.workers, a.redis = nil, nil, nil, nil
	return err
}

// start starts so many servers; told is told which tasks are durably done.
func (a *asynqPeer) start(servers int, told func(task string)) error {
	a.told = told
	nothing := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
	for range servers {
		s := asynq.NewServerFromRedisClient(a.workers, asynq.Config{
			Concurrency: a.tuning.handlers, TaskCheckInterval: a.tuning.check, LogLevel: asynq.ErrorLevel,
		})
		if err := s.Start(nothing); err != nil {
			return err
		}
		a.servers = append(a.servers, s)
	}
	return nil
}

// task is one with as many bytes of JSON as the load says.
func (a *asynqPeer) task() *asynq.Task {
	return asynq.NewTask(asynqTask, []byte(`"`+a.load.text(len(`""`))+`"`))
}

// insert enqueues n tasks.
func (a *asynqPeer) insert(ctx context.Context, n int) error {
	return batches(ctx, a.tuning.producers, n, 1, func(ctx context.Context, _, _ int) error {
		_, err := a.client.EnqueueContext(ctx, a.task())
		return err
	})
}

// Insert enqueues.
func (a *asynqPeer) Insert(ctx context.Context, m *Meter, n int) error {
	m.Server(a.redis.pid())
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := a.insert(ctx, n); err != nil {
		return err
	}
	return m.Done(ctx)
}

// Drain works what Insert left.
func (a *asynqPeer) Drain(ctx context.Context, m *Meter, n int) error {
	m.Server(a.redis.pid())
	done := newTally()
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := a.start(a.tuning.servers, func(string) { done.add(1) }); err != nil {
		return err
	}
	return a.finish(ctx, m, done, n)
}

// Both enqueues and works at once.
func (a *asynqPeer) Both(ctx context.Context, m *Meter, n int) error {
	m.Server(a.redis.pid())
	done := newTally()
	if err := a.start(a.tuning.servers, func(string) { done.add(1) }); err != nil {
		return err
	}
	if err := waitFor(ctx, warmUp); err != nil {
		return err
	}
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := a.insert(ctx, n); err != nil {
		return err
	}
	return a.finish(ctx, m, done, n)
}

// finish waits until n tasks are done, ends the measurement, and asks the queue.
func (a *asynqPeer) finish(ctx context.Context, m *Meter, done *tally, n int) error {
	if err := done.wait(ctx, n); err != nil {
		return err
	}
	if err := m.Done(ctx); err != nil {
		return err
	}
	return a.verify(n)
}

func (a *asynqPeer) verify(n int) error {
	info, err := asynq.NewInspectorFromRedisClient(a.producers).GetQueueInfo("default")
	if err != nil {
		return err
	}
	if info.ProcessedTotal != n || info.FailedTotal != 0 || info.Size != 0 {
		return fmt.Errorf("%w: %d processed, %d of them failed, %d in the queue, %d counted", errWrongCount, info.ProcessedTotal, info.FailedTotal, info.Size, n)
	}
	return nil
}

// Singles enqueues one task a round trip.
func (a *asynqPeer) Singles(ctx context.Context, m *Meter, clients int, d time.Duration) error {
	one := func(ctx context.Context, _, _ int) error {
		_, err := a.client.EnqueueContext(ctx, a.task())
		return err
	}
	if err := together(ctx, clients, func(ctx context.Context, client int) error { return one(ctx, client, -1) }); err != nil {
		return err
	}
	m.Server(a.redis.pid())
	if err := m.Begin(ctx); err != nil {
		return err
	}
	n, err := hammer(ctx, clients, d, one)
	if err != nil {
		return err
	}
	m.Count(n)
	m.Trips(1)
	return m.Done(ctx)
}

// Latency enqueues at a rate.
func (a *asynqPeer) Latency(ctx context.Context, m *Meter, rate int, d time.Duration) error {
	watches := newStopwatches(&m.Histogram)
	stop := func(task string) {
		if i, err := strconv.ParseInt(task, 10, 64); err == nil {
			watches.stop(i)
		}
	}
	if err := a.start(a.tuning.few, stop); err != nil {
		return err
	}
	if err := waitFor(ctx, warmUp); err != nil {
		return err
	}
	m.Server(a.redis.pid())
	if err := m.Begin(ctx); err != nil {
		return err
	}
	n, err := drip(ctx, rate, d, func(ctx context.Context, i int, began time.Time) error {
		watches.start(int64(i), began)
		_, err := a.client.EnqueueContext(ctx, a.task(), asynq.TaskID(strconv.Itoa(i)))
		return err
	})
	if err != nil {
		return err
	}
	m.Count(n)
	return a.finish(ctx, m, watches.tally, n)
}

// Idle runs servers without a task.
func (a *asynqPeer) Idle(ctx context.Context, m *Meter, d time.Duration) error {
	if err := a.start(a.tuning.few, func(string) {}); err != nil {
		return err
	}
	m.Server(a.redis.pid())
	return idle(ctx, m, d)
}

// asynqHook tells which tasks are done as soon as Redis has answered that they are:
// asynq itself does not tell.
type asynqHook struct{ done func(task string) }

// DialHook does nothing.
func (asynqHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook does nothing.
func (asynqHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook watches commands.
func (h asynqHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil {
			if task, ok := doneTask(cmd.Args()); ok {
				h.done(task)
			}
		}
		return err
	}
}

// doneTask is the task of a command that runs asynq's script for a task that is done: the
// only one that has five keys, of which the first is the list of active tasks.
func doneTask(args []any) (task string, ok bool) {
	const name, keys, first, id = 0, 2, 3, 3 + 5
	if len(args) <= id || args[name] != "evalsha" && args[name] != "eval" || args[keys] != 5 {
		return "", false
	}
	if key, isText := args[first].(string); !isText || !strings.HasSuffix(key, ":active") {
		return "", false
	}
	task, ok = args[id].(string)
	return task, ok
}

// redisServer is a Redis server that acknowledges nothing before an fsync.
type redisServer struct {
	command *exec.Cmd
	address string
	folder  string
	log     *os.File
}

// startRedis starts an empty one, whose files are in a new folder below dir.
func startRedis(ctx context.Context, program, dir string) (r *redisServer, err error) {
	r = &redisServer{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting Redis: %w", err), r.stop())
		}
	}()
	if r.folder, err = os.MkdirTemp(dir, "redis-*"); err != nil {
		return r, err
	}
	if r.log, err = os.Create(filepath.Join(r.folder, "log")); err != nil {
		return r, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return r, err
	}
	r.address = net.JoinHostPort("127.0.0.1", port)
	r.command = exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--dir", r.folder,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "")
	r.command.Stdout, r.command.Stderr = r.log, r.log
	if err = r.command.Start(); err != nil {
		r.command = nil
		return r, err
	}
	client := r.client(1)
	defer client.Close()
	for {
		var told map[string]string
		if told, err = client.ConfigGet(ctx, "append*").Result(); err == nil {
			return r, alwaysSynced(told)
		}
		if e := waitFor(ctx, 10*time.Millisecond); e != nil {
			return r, errors.Join(err, e)
		}
	}
}

// alwaysSynced refuses a Redis that acknowledges what it can lose.
func alwaysSynced(settings map[string]string) error {
	if settings["appendonly"] != "yes" || settings["appendfsync"] != "always" {
		return fmt.Errorf("appendonly is %q and appendfsync %q: no figure is worth anything without yes and always", settings["appendonly"], settings["appendfsync"])
	}
	return nil
}

// freePort is one that nobody listens on.
func freePort(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (r *redisServer) pid() int { return r.command.Process.Pid }

// client connects with at most so many connections.
func (r *redisServer) client(connections int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: r.address, PoolSize: connections})
}

// stop ends it and removes its files.
func (r *redisServer) stop() error {
	var err error
	if r.command != nil {
		if err = r.command.Process.Signal(syscall.SIGTERM); err == nil {
			err = r.command.Wait()
		}
	}
	if r.log != nil {
		err = errors.Join(err, r.log.Close())
	}
	return errors.Join(err, os.RemoveAll(r.folder))
}
