//go:build unix && !linux

package devstack

import "syscall"

// dieWithParent does nothing: only Linux tells a child that its parent died.
func dieWithParent(*syscall.SysProcAttr) {}
