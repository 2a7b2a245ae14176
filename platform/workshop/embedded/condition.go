package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
)

// Code names one condition that prevents the servers from starting. It is
// stable: scripts may compare it.
type Code string

// The conditions that an operator may encounter.
const (
	CodePortTaken      Code = "port-taken"
	CodePortRefused    Code = "port-refused"
	CodeBinaryMissing  Code = "binary-missing"
	CodeLockHeld       Code = "lock-held"
	CodeStaleLock      Code = "stale-lock"
	CodeNotGivenBack   Code = "not-given-back"
	CodeOrphan         Code = "orphan"
	CodeDiskLow        Code = "disk-low"
	CodeDiskFull       Code = "disk-full"
	CodeNewerData      Code = "newer-data"
	CodeNotEnterable   Code = "data-not-enterable"
	CodeForeignFolder  Code = "foreign-folder"
	CodeMajorMismatch  Code = "postgres-version"
	CodeNoAccount      Code = "account-missing"
	CodeUnsafeSockets  Code = "unsafe-socket-folder"
	CodeChildFailed    Code = "child-failed"
	CodeChildEnded     Code = "child-ended"
	CodeDataUnreadable Code = "data-unreadable"
	CodeNoSockets      Code = "socket-folder-refused"
	CodeNamelessUser   Code = "account-nameless"
)

// condition is a code's exit code and sentence. Sentences are format strings;
// the callers of fail pass the arguments in the order in which they appear.
type condition struct {
	exit     int
	sentence string
}

// conditions is the one table of codes, exit codes and sentences. Exit codes start at 10, clear of the shell's own
// (1, 2, 126 and above) and of sysexits (64–78); each is used once, so that a
// script can tell them apart. A repaired condition is only announced and has
// exit code 0.
var conditions = map[Code]condition{
	CodePortTaken:      {10, `The address %s is already in use by another program: stop that program, or choose another address with %s.`},
	CodePortRefused:    {11, `The address %s cannot be listened on (%s): choose another with %s.`},
	CodeBinaryMissing:  {12, `%s was not found%s: start with "make run", which fetches it, or with "docker compose up", or use servers of your own with "stampede serve --database-url … --redis-url …".`},
	CodeLockHeld:       {13, `Another stampede (pid %s) is using the data folder %s: stop it first, or choose another folder with --data.`},
	CodeStaleLock:      {0, `An earlier stampede (pid %s) ended without a clean stop; the servers it left running on %s were stopped, and this start continues with its data.`},
	CodeNotGivenBack:   {0, `The stampede that last used %[2]s (pid %[1]s) did not stop cleanly, or the folder is a copy of one in use; none of its servers was left running here, and this start continues with the data.`},
	CodeOrphan:         {14, `%s of an earlier run (pid %d) still uses the data folder %s and could not be stopped: stop it with "kill %d", then start again.`},
	CodeDiskLow:        {15, `The disk that holds %s has %d MB free, and Stampede needs at least %d MB: free some space, or choose another folder with --data.`},
	CodeDiskFull:       {16, `The disk that holds %s is full: free some space, or choose another folder with --data.`},
	CodeNewerData:      {17, `The data in %s was written by a newer stampede (format %d, this one knows up to %d): use that version, choose another folder with --data, or start over with --fresh.`},
	CodeNotEnterable:   {18, `The account %q cannot enter the folder %s, so %s cannot hold the data: choose another folder with --data, or give the account access with "chmod o+x %s".`},
	CodeForeignFolder:  {19, `%s is not empty and contains no Stampede data (found %q): choose an empty or a new folder with --data, with make: make run ARGS='--data FOLDER'.`},
	CodeMajorMismatch:  {20, `The data in %s was written by PostgreSQL %d, and only PostgreSQL %s was found: install PostgreSQL %d, choose another folder with --data, or start over with --fresh.`},
	CodeNoAccount:      {21, `Postgres refuses to run as root and the account %q does not exist here: add it with "useradd --system", name another with --run-as, or start as an ordinary user.`},
	CodeUnsafeSockets:  {22, `The folder for the sockets, %s, belongs to another user or is accessible to others: remove it, or set TMPDIR to a folder of your own.`},
	CodeChildFailed:    {23, `%s did not start; the cause is at the end of %s.`},
	CodeChildEnded:     {24, `%s exited unexpectedly; the cause is at the end of %s.`},
	CodeDataUnreadable: {25, `The data folder %s cannot be used (%s): fix that, or choose another folder with --data.`},
	CodeNoSockets:      {26, `The folder for the sockets, %s, cannot be created (%s): set TMPDIR to a short folder of your own.`},
	CodeNamelessUser:   {27, `Postgres refuses to run as the user id %d, which has no name on this machine: start as an account that has one.`},
}

// StartError says why the servers cannot run, and what to do next.
type StartError struct {
	// Code is the condition, one of the Code constants.
	Code Code
	// Exit is the process exit code for the condition; 0 only for conditions that were repaired.
	Exit int
	// Sentence is one full sentence for the operator; it never needs Err to be understood.
	Sentence string
	// Err is the cause, nil if the sentence is complete. For a child it
	// contains the end of its log.
	Err error
}

// Error returns the sentence, followed by the cause if that adds information.
func (e *StartError) Error() string {
	if e.Err == nil || e.Code == CodeDataUnreadable { // whose sentence contains the cause
		return e.Sentence
	}
	return e.Sentence + "\n" + e.Err.Error()
}

// ExitCode returns the process exit code for the condition.
func (e *StartError) ExitCode() int { return e.Exit }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// fail builds the error for a condition from the table. The arguments are those
// of its sentence.
func fail(code Code, cause error, args ...any) *StartError {
	c, ok := conditions[code]
	if !ok {
		panic("embedded: condition without a row in the table: " + string(code))
	}
	return &StartError{Code: code, Exit: c.exit, Sentence: fmt.Sprintf(c.sentence, args...), Err: cause}
}

// PortError turns the error of listening on addr (host:port), which the named
// flag sets, into a sentence for the operator. It returns nil for a nil error.
func PortError(flag, addr string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fail(CodePortTaken, nil, addr, flag)
	}
	return fail(CodePortRefused, nil, addr, reason(err), flag)
}

// reason returns the innermost message of an error: the operating system's,
// without our wrapping.
func reason(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err.Error()
	}
	return err.Error()
}

// dataError classifies an error of reading or writing below the data folder.
func dataError(dir string, err error) error {
	var known *StartError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fail(CodeDiskFull, nil, dir)
	default:
		return fail(CodeDataUnreadable, err, dir, reason(err))
	}
}
