package revoke

import (
	"errors"
	"strconv"
	"strings"
)

// entry is one revocation as it is sent: of one login, or of a user's tokens issued
// up to a given time.
type entry struct {
	login   int64
	user    int64
	until   int64 // for a user, in Unix microseconds
	expires int64 // when it may be forgotten, in Unix seconds
}

// String encodes the entry as a line of a broadcast and a member of the Redis set:
// "l:<login>:<expires>" or "u:<user>:<until>:<expires>". Older and newer versions
// read each other's entries; an instance finds those it cannot parse in Postgres.
func (e entry) String() string {
	expires := ":" + strconv.FormatInt(e.expires, 10)
	if e.login != 0 {
		return "l:" + strconv.FormatInt(e.login, 10) + expires
	}
	return "u:" + strconv.FormatInt(e.user, 10) + ":" + strconv.FormatInt(e.until, 10) + expires
}

var errEntry = errors.New("revoke: not a revocation")

// parse decodes the output of String.
func parse(text string) (entry, error) {
	var e entry
	var into []*int64
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case "l":
		into = []*int64{&e.login, &e.expires}
	case "u":
		into = []*int64{&e.user, &e.until, &e.expires}
	default:
		return entry{}, errEntry
	}
	parts := strings.Split(rest, ":")
	if len(parts) != len(into) {
		return entry{}, errEntry
	}
	for i, part := range parts {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n <= 0 {
			return entry{}, errEntry
		}
		*into[i] = n
	}
	return e, nil
}

// parseAll parses the valid entries and counts the rest.
func parseAll(texts []string) (entries []entry, unread int) {
	for _, text := range texts {
		e, err := parse(text)
		if err != nil {
			unread++
			continue
		}
		entries = append(entries, e)
	}
	return entries, unread
}
