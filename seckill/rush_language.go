package seckill

import "stampede/platform/httpx"

// language picks the language of an answer without the cost of parsing
// Accept-Language in full: the first of English and Chinese that the header
// names wins. Weights are ignored, because clients list what they prefer first.
func language(accept []string) httpx.Language {
	for _, header := range accept {
		for start := true; len(header) >= 2; header = header[1:] {
			c := header[0]
			if c == ' ' || c == '\t' || c == ',' {
				start = true
				continue
			}
			if !start {
				continue
			}
			start = false
			if len(header) > 2 && header[2] != '-' && header[2] != ',' && header[2] != ';' && header[2] != ' ' {
				continue // another language that begins alike
			}
			switch {
			case c|0x20 == 'z' && header[1]|0x20 == 'h':
				return httpx.Chinese
			case c|0x20 == 'e' && header[1]|0x20 == 'n':
				return httpx.English
			}
		}
	}
	return httpx.English
}
