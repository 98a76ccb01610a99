package app

import (
	"os"
	"os/user"
)

// Login is the name that this process's user logged in with: who acts, where nobody says.
func Login() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}
