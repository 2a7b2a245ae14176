package bench_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The figures are published in two languages; a new measurement must update both.
func TestBothReadmesHaveTheSameFigures(t *testing.T) {
	t.Parallel()
	english, chinese := measured(t, "../../../README.md", "## Measured"), measured(t, "../../../.github/README.zh-CN.md", "## 实测")
	if len(english) == 0 || !slices.Equal(english, chinese) {
		t.Errorf("the tables of README.md and README.zh-CN.md differ:\n%q\n%q", english, chinese)
	}
}

// measured is every number in the tables of a section, in order.
func measured(t *testing.T, name, heading string) []string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var figures []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "|") {
			figures = append(figures, regexp.MustCompile(`[0-9][0-9,.]*`).FindAllString(line, -1)...)
		}
	}
	return figures
}
