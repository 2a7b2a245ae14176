// Package operating_test checks what is written for people: the README, the handbook
// beside this file, and every other page of the project.
package operating_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"stampede/platform/workshop/require"
)

const (
	root    = "../.."
	here    = "platform/operating"
	chinese = ".zh-CN.md"
)

// files returns the files of the project whose names end in suffix, by their path below the root.
func files(t *testing.T, suffix string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && len(d.Name()) > 1 && strings.HasPrefix(d.Name(), ".") && d.Name() != ".github":
			// Git's, and what the tests themselves fetch: it changes from run to run, and Go caches no result of a test that reads it.
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, suffix):
			return nil
		}
		raw, err := fs.ReadFile(tree, name)
		texts[name] = string(raw)
		return err
	})
	require.NoError(t, err)
	return texts
}

// pages returns every page of the project.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := files(t, ".md")
	if len(texts) < 60 {
		t.Fatalf("found only %d pages", len(texts))
	}
	return texts
}

// The first page is read in five minutes; everything else belongs in the handbook.
func TestREADMEIsShort(t *testing.T) {
	t.Parallel()
	if words := len(strings.Fields(pages(t)["README.md"])); words > 1500 {
		t.Errorf("README.md has %d words, want at most 1500", words)
	}
}

// TestLinksResolve follows every relative link of every page, to its heading too.
func TestLinksResolve(t *testing.T) {
	t.Parallel()
	texts := pages(t)
	link, code := regexp.MustCompile(`\]\(([^)\s]+)\)|src="([^"]+)"`), regexp.MustCompile("`[^`\n]+`")
	for name, text := range texts {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, "code"), -1) {
			target, heading, _ := strings.Cut(m[1]+m[2], "#")
			if strings.Contains(target, ":") || strings.HasPrefix(target, "/") {
				continue // another site's
			}
			to := name
			if target != "" {
				to = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, to)
			} else if heading != "" && !slices.Contains(headings(texts[to]), heading) {
				t.Errorf("%s links to #%s of %s, which has %q", name, heading, to, headings(texts[to]))
			}
		}
	}
}

// headings returns the anchors that GitHub gives to the headings of a page.
func headings(text string) []string {
	var anchors []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		anchors = append(anchors, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return anchors
}

// TestBothLanguagesSayTheSame: each page has its counterpart, with as many headings and
// rows, the same figures in its tables and the same settings, routes and alarms.
func TestBothLanguagesSayTheSame(t *testing.T) {
	t.Parallel()
	texts := pages(t)
	pairs := map[string]string{"README.md": ".github/README" + chinese}
	for name := range texts {
		switch {
		case path.Dir(name) != here:
		case strings.HasSuffix(name, chinese):
			if english := strings.TrimSuffix(name, chinese) + ".md"; texts[english] == "" {
				t.Errorf("%s has no English page", name)
			}
		default:
			pairs[name] = strings.TrimSuffix(name, ".md") + chinese
		}
	}
	for name, other := range pairs {
		if texts[other] == "" {
			t.Errorf("%s has no page %s", name, other)
			continue
		}
		for what, pattern := range map[string]string{
			"headings": `(?m)^#+ `,
			"rows":     `(?m)^\|`,
			"flags":    `--[a-z][a-z-]+`,
			"routes":   `(?:GET|POST|PUT|PATCH|DELETE) /api/[^\x60\s]+`,
			"figures":  `(?m)^\|.*\|$`,
		} {
			a, b := found(texts[name], pattern), found(texts[other], pattern)
			if what == "figures" {
				a, b = found(strings.Join(a, "\n"), `\d+(?:[,.]\d+)*`), found(strings.Join(b, "\n"), `\d+(?:[,.]\d+)*`)
			}
			if what == "flags" || what == "routes" {
				slices.Sort(a)
				slices.Sort(b)
				a, b = slices.Compact(a), slices.Compact(b)
			}
			if !slices.Equal(a, b) {
				t.Errorf("the %s of %s and %s differ:\n%q\n%q", what, name, other, a, b)
			}
		}
	}
}

func found(text, pattern string) []string {
	return regexp.MustCompile(pattern).FindAllString(text, -1)
}

// TestHandbookNamesRoutesThatExist compares the routes with the OpenAPI document.
func TestHandbookNamesRoutesThatExist(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(root, "platform", "edge", "httpx", "openapi.json"))
	require.NoError(t, err)
	var doc struct{ Paths map[string]map[string]any }
	require.NoError(t, json.Unmarshal(raw, &doc))
	route, named := regexp.MustCompile(`(GET|POST|PUT|PATCH|DELETE) (/api/v1/[\w/{}.-]+)`), 0
	for name, text := range pages(t) {
		if path.Dir(name) != here {
			continue
		}
		for _, m := range route.FindAllStringSubmatch(text, -1) {
			named++
			if doc.Paths[m[2]][strings.ToLower(m[1])] == nil {
				t.Errorf("%s names %s, which is not in the document", name, m[0])
			}
		}
	}
	if named < 50 {
		t.Errorf("found only %d routes", named)
	}
}

// TestHandbookNamesTheAttacks: each attack of the table has its test.
func TestHandbookNamesTheAttacks(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	for _, source := range files(t, "_test.go") {
		for _, m := range regexp.MustCompile(`(?m)^func TestAttack(\w+)\(`).FindAllStringSubmatch(source, -1) {
			tests[m[1]] = true
		}
	}
	texts := pages(t)
	var named [2][]string
	for i, page := range []string{"attacks.md", "attacks" + chinese} {
		for _, row := range strings.Split(texts[path.Join(here, page)], "\n| ")[1:] {
			cells := strings.Split(row, " | ")
			named[i] = append(named[i], found(cells[len(cells)-1], "`[A-Z]\\w+`")...)
		}
	}
	if len(named[0]) == 0 || !slices.Equal(named[0], named[1]) {
		t.Errorf("the pages name\n%q\n%q", named[0], named[1])
	}
	for _, name := range named[0] {
		if !tests[strings.Trim(name, "`")] {
			t.Errorf("there is no TestAttack%s", strings.Trim(name, "`"))
		}
	}
}
