// Package app is the process kit: what every binary of Duly does the same way, so
// that each main is a page that only composes.
//
//   - Exec runs a program from its arguments to its exit code (process.go); the
//     settings of a process come from flags, environment or files (settings.go);
//   - Serve runs a program that has loops: tracing, metrics and the admin server
//     around them, all stopped in reverse order (service.go, group.go, stack.go);
//   - LoadConfig reads duly.yaml, the configuration that all processes of an
//     installation share (configfile.go, schedulefile.go, check.go);
//   - Retry waits for what a process needs at its start (retry.go).
//
// A process is a value: nothing here keeps global state or ends the process (Main's
// second signal apart), so every program can run inside a test.
package app
