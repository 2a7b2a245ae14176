package httpx_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"stampede/platform/workshop/require"
)

// allowances are differences from the last release that its clients notice, and that were
// decided: the findings whose id is id, and of whose "METHOD path text" a part is of.
// says is what CHANGELOG.md says about them, above that release.
var allowances = []struct{ id, of, says string }{
	{"(request|response)-property-(type-changed|min-unset|max-unset)", "`(.+/)?(freight|free_from|amount)`", "Money is always `{"},
	{"new-required-request-property", "`(.+/)?(freight|free_from|amount)/(amount|currency)`", "Money is always `{"},
	{"request-property-pattern-added", "/currency`", "Money is always `{"},
	{"request-parameter-pattern-added", "`(id|.+_id)`$", "Ids are strings in queries too"},
	{"new-required-request-property", "/(recall|close|refunds) .*`reason`", "Explanations that a request gives are its `reason`"},
	{"request-property-removed", "(recall|refunds|risk/rules|risk/rules/dry-run|risk/rules/{id}) .*`note`|disputes/{no}/close .*`text`", "(`note` of refunds, coupon recalls and risk rules, `text` of a dispute's closing)"},
	{"response-optional-property-removed", "risk/rules.* `(.+/)?note`", "(`note` of refunds, coupon recalls and risk rules, `text` of a dispute's closing)"},
	{"new-required-request-property|request-property-removed", "/notes .*`(note|text)`", "an operator's note on an order is `note` (was `text`"},
	{"response-required-property-removed", "`(.+/)?(first|last)_seen`", "`first_seen_at` and `last_seen_at` of alarms"},
	{"response-required-property-removed", "statements/{date} .*`date`", "`day` (`date`) of statements"},
	{"response-optional-property-removed", "`(.+/)?(pay_deadline|respond_by|waiting_since|next_try)`", "`pay_until` (`pay_deadline`), `respond_until` (`respond_by`), `waiting_from` (`waiting_since`), `next_try_at` (`next_try`)"},
	{"new-required-request-property|request-property-removed", "/repeat .*`(last_day|until)`", "`last_day` (`until`) of a repeated session"},
	{"request-parameter-removed", "admin/(orders|orders/export|messages) .*`(from|to|paid_to|updated_to)`", "(`from`, `to`, `paid_to`, `updated_to`), messages by `until` (`to`)"},
	{"request-property-enum-value-removed", "`refusals_per_minute`", "Risk rules of the kind `refusals_per_minute`"},
	{"request-parameter-removed", "auth/qr/{id} .*`(wait|knows)`", "`wait` and `knows` are ignored"},
}

// TestReleasedClientsStillFit compares the document with the last release's. What removes
// or narrows something needs an allowance, a line in CHANGELOG.md, and a higher version.
func TestReleasedClientsStillFit(t *testing.T) {
	t.Parallel()
	packed, err := os.Open("testdata/released.json.gz")
	require.NoError(t, err)
	defer func() { _ = packed.Close() }()
	unpacked, err := gzip.NewReader(packed)
	require.NoError(t, err)
	before, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	now, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	changes, err := os.ReadFile("../../../CHANGELOG.md")
	require.NoError(t, err)

	least, version := versionOf(t, before), versionOf(t, now)
	released := fmt.Sprintf("%d.%d.%d", least[0], least[1], least[2])
	unreleased, _, found := strings.Cut(string(changes), "\n## "+released+" - ")
	if !found || regexp.MustCompile(`(?m)^## \d`).MatchString(unreleased) {
		t.Fatalf("testdata/released.json.gz is of %s, which is not the newest release in CHANGELOG.md: replace it by "+
			"`gzip -9nc openapi.json >testdata/released.json.gz`, and empty allowances", released)
	}
	noticed, used := compared(t, before, now), map[int]bool{}
	for _, f := range noticed {
		allowed := false
		for i, a := range allowances {
			if regexp.MustCompile("^("+a.id+")$").MatchString(f.ID) && regexp.MustCompile(a.of).MatchString(f.String()) {
				allowed, used[i] = true, true
			}
		}
		if !allowed {
			t.Errorf("clients of %s break: %s (%s). Keep the old name or value beside the new one, or add an allowance here and a line to CHANGELOG.md", released, f, f.ID)
		}
	}
	for i, a := range allowances {
		if !used[i] {
			t.Errorf("remove the allowance %q of %q: it matches nothing", a.id, a.of)
		}
		if !strings.Contains(unreleased, a.says) {
			t.Errorf("CHANGELOG.md does not say %q above %s, which the allowance %q of %q quotes", a.says, released, a.id, a.of)
		}
	}
	switch {
	case len(noticed) == 0:
		least[2]++
	case least[0] == 0:
		least = [3]int{0, least[1] + 1, 0}
	default:
		least = [3]int{least[0] + 1, 0, 0}
	}
	if !bytes.Equal(before, now) && slices.Compare(version[:], least[:]) < 0 {
		t.Errorf("the document differs from that of %s, with %d differences that clients notice: raise Version to at least %d.%d.%d",
			released, len(noticed), least[0], least[1], least[2])
	}
}

// versionOf returns a document's info.version.
func versionOf(t *testing.T, document []byte) (v [3]int) {
	t.Helper()
	var doc struct{ Info struct{ Version string } }
	require.NoError(t, json.Unmarshal(document, &doc))
	_, err := fmt.Sscanf(strings.TrimPrefix(doc.Info.Version, "v"), "%d.%d.%d", &v[0], &v[1], &v[2])
	require.NoError(t, err)
	return v
}

// finding is one of oasdiff's.
type finding struct{ ID, Text, Operation, Path string }

func (f finding) String() string { return f.Operation + " " + f.Path + " " + f.Text }

// severities are where the policy differs from oasdiff's. Most optional members of answers
// are in all answers of a kind, generated clients have methods of the operations' ids, and
// clients must bear codes and types of events that they do not know.
const severities = `
response-optional-property-removed err
optional-response-header-removed err
api-operation-id-removed err
response-property-enum-value-added info
response-mediatype-enum-value-added info
response-property-one-of-added info
response-body-one-of-added info
`

// compared returns what clients of one document notice when they meet another.
func compared(t *testing.T, before, now []byte) (all []finding) {
	t.Helper()
	dir, args := t.TempDir(), []string{"tool", "-C", "../../../.ci/oasdiff", "oasdiff", "breaking", "--format", "json"}
	for _, f := range []struct {
		flag    string
		content []byte
	}{{"--severity-levels", []byte(strings.TrimSpace(severities))}, {"", before}, {"", now}} {
		name := filepath.Join(dir, strconv.Itoa(len(args)))
		require.NoError(t, os.WriteFile(name, f.content, 0o600))
		if f.flag != "" {
			args = append(args, f.flag)
		}
		args = append(args, name)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...) //nolint:gosec // its own files
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off")
	var said strings.Builder
	cmd.Stderr = &said
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("oasdiff, which .ci/setup builds, failed with %v: %s", err, &said)
	}
	require.NoError(t, json.Unmarshal(raw, &all))
	return all
}
