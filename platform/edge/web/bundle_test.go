package web

import (
	"strings"
	"testing"
)

func TestBundleSharesOneCopyOfEachModule(t *testing.T) {
	t.Parallel()
	served, err := bundle(map[string]string{
		"main.js":  "import * as page from \"./page.js\";\npage.show();\n",
		"page.js":  "// a remark\nimport { name } from \"./words.js\";\nexport function show() { return import(\"./later.js\"); }\n",
		"words.js": "export const name = 1;\n",
		"later.js": "import { name } from \"./words.js\";\nimport { more } from \"./alone.js\";\nexport const all = name + more;\n",
		"alone.js": "export const more = 2;\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := served["main.js"]; strings.Index(s, "const $words") > strings.Index(s, "const $page") || !strings.Contains(s, "const page = $page;") || strings.Contains(s, "remark") {
		t.Errorf("the shell:\n%s", s)
	}
	if want := "import { $words } from \"./main.js\";\nconst { name } = $words;\nimport { more } from \"./alone.js\";\nexport const all = name + more;\n"; served["later.js"] != want {
		t.Errorf("a later module:\n%s\nwant:\n%s", served["later.js"], want)
	}
	if len(served) != 3 {
		t.Errorf("%d files are served, want the shell and the two that are not in it", len(served))
	}
}

func TestBundleRefusesWhatItCannotServe(t *testing.T) {
	t.Parallel()
	for says, sources := range map[string]map[string]string{
		"circle":         {"main.js": "import \"./a.js\";\n", "a.js": "import \"./main.js\";\n"},
		"does not exist": {"main.js": "import \"./a.js\";\n"},
		"form":           {"main.js": "export default 1;\n"},
	} {
		if _, err := bundle(sources); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
