package pgtest

import (
	"testing"

	"stampede/platform/workshop/embedded"
)

func TestMissingProgramsNameTheRemedy(t *testing.T) {
	t.Parallel()
	err := missing(&embedded.StartError{Code: embedded.CodeBinaryMissing, Sentence: "PostgreSQL 15 or newer was not found."})
	want := `tests need PostgreSQL and Redis, and "make test" fetches them: PostgreSQL 15 or newer was not found.`
	if err.Error() != want {
		t.Errorf("got  %q\nwant %q", err, want)
	}
}

func TestConnectionStringsOfEitherForm(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"postgres://u@h:1/a?sslmode=disable": "postgres://u@h:1/x?sslmode=disable",
		"postgresql://u@/a?host=%2Ftmp":      "postgresql://u@/x?host=%2Ftmp",
		"host=/tmp user=u dbname=a":          "host=/tmp user=u dbname=a dbname=x",
	} {
		if got := withDatabase(server, "x"); got != want {
			t.Errorf("%s: got %s, want %s", server, got, want)
		}
	}
	for server, want := range map[string]string{
		"redis://:pw@h:1":           "redis://:pw@h:1/7",
		"rediss://h:1/3?protocol=3": "rediss://h:1/7?protocol=3",
		"unix:///tmp/r.sock?db=3":   "unix:///tmp/r.sock?db=7",
	} {
		if got := withNumber(server, 7); got != want {
			t.Errorf("%s: got %s, want %s", server, got, want)
		}
	}
}
