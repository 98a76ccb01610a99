package e2e_test

import "syscall"

// dieWithParent lets the kernel end a child whose parent, the test program, is gone.
func dieWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
