//go:build !linux

package pg

import "syscall"

// boundUnacked does nothing: the keepalives alone find a vanished server.
func boundUnacked(string, string, syscall.RawConn) error { return nil }
