package devstack

import "syscall"

// dieWithParent has the kernel send a fast shutdown request when the thread
// that started the child ends; [startProcess] keeps that thread for as long as
// the child lives.
func dieWithParent(attributes *syscall.SysProcAttr) {
	attributes.Pdeathsig = syscall.SIGINT
}
