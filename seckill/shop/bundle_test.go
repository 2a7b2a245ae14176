package shop

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stampede/platform/identity/humancheck"
	"stampede/platform/workshop/require"
)

// TestGoldenServed makes the files that are served of their sources, and compares them with those in the program.
func TestGoldenServed(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("static/*")
	require.NoError(t, err)
	sources := map[string]string{solver: humancheck.Solver}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		sources[filepath.Base(name)] = string(raw)
	}
	made, err := bundle(sources)
	require.NoError(t, err)
	if os.Getenv("STAMPEDE_UPDATE_GOLDEN") != "" {
		require.NoError(t, os.RemoveAll("served"))
		require.NoError(t, os.Mkdir("served", 0o755)) //nolint:gosec // sources
		for name, body := range made {
			require.NoError(t, os.WriteFile(filepath.Join("served", name), []byte(body), 0o644)) //nolint:gosec // sources
		}
		return
	}
	served, err := read()
	require.NoError(t, err)
	if !maps.Equal(made, served) {
		t.Error("the files in served are not those of the sources in static: make generate writes them")
	}
}

func TestBundleSharesOneCopyOfEachModule(t *testing.T) {
	t.Parallel()
	served, err := bundle(map[string]string{
		"main.js":   "import * as page from \"./page.js\";\npage.show();\n",
		"page.js":   "// a remark\nimport { name } from \"./words.js\";\nexport function show() { name(); return import(\"./later.js\"); }\n",
		"words.js":  "export const name = () => \"您好\";\n",
		"later.js":  "import { name } from \"./words.js\";\nimport { more } from \"./alone.js\";\nexport const all = name() + more();\n",
		"alone.js":  "export const more = () => new URL(\"./goods.svg\", import.meta.url);\n",
		"style.css": "a  {  color : red }\n", "goods.svg": "<svg></svg>",
	})
	require.NoError(t, err)
	if s := served["main.js"]; strings.Count(s, "您好") != 1 || !strings.Contains(s, `import("./later.js")`) || strings.Contains(s, "remark") {
		t.Errorf("the shell:\n%s", s)
	}
	if s := served["later.js"]; !strings.Contains(s, `from"./main.js"`) || !strings.Contains(s, `from"./alone.js"`) || strings.Contains(s, "您好") {
		t.Errorf("a later module:\n%s", s)
	}
	if !strings.Contains(served["alone.js"], `new URL("./goods.svg",import.meta.url)`) || served["style.css"] != "a{color:red}\n" || served["goods.svg"] != "<svg></svg>" {
		t.Errorf("the other files: %q", served)
	}
	require.Equal(t, "the shell and what is not in it", slices.Sorted(maps.Keys(served)), []string{"alone.js", "goods.svg", "later.js", "main.js", "style.css"})
}

func TestBundleRefusesWhatItCannotServe(t *testing.T) {
	t.Parallel()
	for says, sources := range map[string]map[string]string{
		"a.js is imported and does not exist":     {"main.js": "import \"./a.js\";\n"},
		"later.js is imported and does not exist": {"main.js": "import(\"./later.js\");\n"},
		"Expected identifier":                     {"main.js": "const = 1;\n"},
		"No matching export":                      {"main.js": "import { b } from \"./a.js\";\nb();\n", "a.js": "export const c = 1;\n"},
	} {
		if _, err := bundle(sources); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// TestLaterModulesFindWhatTheyImport checks the imports that the bundler leaves to the
// browser.
func TestLaterModulesFindWhatTheyImport(t *testing.T) {
	t.Parallel()
	served, err := read()
	require.NoError(t, err)
	exports := map[string][]string{}
	for name, body := range served {
		for _, m := range regexp.MustCompile(`export\{([^}]*)\}`).FindAllStringSubmatch(body, -1) {
			for e := range strings.SplitSeq(m[1], ",") {
				exports[name] = append(exports[name], e[strings.LastIndex(e, " ")+1:])
			}
		}
	}
	found := 0
	for name, body := range served {
		for _, m := range regexp.MustCompile(`import\{([^}]*)\}from"\./([\w-]+\.js)"`).FindAllStringSubmatch(body, -1) {
			for wanted := range strings.SplitSeq(m[1], ",") {
				wanted, _, _ = strings.Cut(wanted, " ")
				found++
				if !slices.Contains(exports[m[2]], wanted) {
					t.Errorf("%s imports %s of %s, which does not export it: two modules may have one of that name", name, wanted, m[2])
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d imports were found: the search is wrong", found)
	}
}
