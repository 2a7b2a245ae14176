package browse

import (
	"strings"
	"testing"

	"stampede/platform/workshop/require"
)

// TestTextsDoNotRun renders texts by which an operator's page could be made to execute
// something, and those that shops write.
func TestTextsDoNotRun(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"<script>alert(1)</script>":                   "\n",
		"a <img src=x onerror=alert(1)> b":            "<p>a  b</p>\n",
		"[x](javascript:alert(1))":                    "<p>x</p>\n",
		"[x](JaVaScRiPt:alert(1))":                    "<p>x</p>\n",
		"[x](&#106;avascript:alert(1))":               "<p>x</p>\n",
		"![x](vbscript:x)":                            "<p><img alt=\"x\"></p>\n",
		"<javascript:alert(1)>":                       "<p>javascript:alert(1)</p>\n",
		"![\" onerror=\"alert(1)](https://a.example)": "<p><img src=\"https://a.example\"></p>\n",
		"[x](https://a.example)":                      "<p><a href=\"https://a.example\" rel=\"nofollow\">x</a></p>\n",
		"规格 | 值\n--|--\n颜色 | 黑":                       "<table>\n<thead>\n<tr>\n<th>规格</th>\n<th>值</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>颜色</td>\n<td>黑</td>\n</tr>\n</tbody>\n</table>\n",
	} {
		got, err := html(text)
		if err != nil || got != want {
			t.Errorf("%s: %q, want %q (%v)", text, got, want, err)
		}
	}
}

func FuzzTextsDoNotRun(f *testing.F) {
	f.Add("[x](javascript:alert(1)) <b onclick=x>")
	f.Add("![x](data:text/html;base64,x)\n\n    <script>\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := html(text)
		require.NoError(t, err)
		for _, tag := range strings.Split(got, "<")[1:] {
			tag, _, _ = strings.Cut(tag, ">")
			name, attributes, _ := strings.Cut(strings.ToLower(tag), " ")
			if strings.HasPrefix(name, "script") || strings.Contains(attributes, "=\"javascript:") || strings.HasPrefix(attributes, "on") || strings.Contains(attributes, "\" on") {
				t.Fatalf("%q became %q", text, got)
			}
		}
	})
}
