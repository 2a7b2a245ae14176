package embedded

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEmptyMarkerIsRewritten: a first start killed in its first step must not
// make the folder unusable.
func TestEmptyMarkerIsRewritten(t *testing.T) {
	t.Parallel()
	dir := emptyDataDir(t)
	write(t, dir, markerName, "")
	d, err := openData(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.prepare(); err != nil {
		t.Error(err)
	}
	if err := d.release(); err != nil {
		t.Error(err)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, markerName)); err != nil || string(raw) != "{\"format\":1}\n" {
		t.Errorf("the marker is %q, %v", raw, err)
	}
}

func TestFreshAsksFirst(t *testing.T) {
	t.Parallel()
	dir := emptyDataDir(t)
	ask := func(answer string) (string, error) {
		var out bytes.Buffer
		err := ConfirmFresh(dir, strings.NewReader(answer), &out)
		return out.String(), err
	}
	if said, err := ask(""); said != "" || err != nil {
		t.Errorf("without data: %q, %v; want neither question nor refusal", said, err)
	}
	write(t, dir, markerName, `{"format": 1}`)
	question := "Delete every sale, order and payment in " + dir + " and start over? [y/N] "
	for answer, refusal := range map[string]string{
		"y\n": "", " YES \n": "", "yes": "",
		"\n": "start without --fresh", "no\n": "start without --fresh", "certainly, please\n": "--yes",
		"": "--yes answers yes", // no terminal
	} {
		said, err := ask(answer)
		if !strings.HasPrefix(said, question) {
			t.Errorf("%q: asked %q", answer, said)
		}
		if (err == nil) != (refusal == "") || err != nil && !strings.Contains(err.Error(), refusal) {
			t.Errorf("%q: %v, want %q", answer, err, refusal)
		}
	}
}
