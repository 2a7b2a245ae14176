package sms

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
)

// Template is a text of the shop. Tencent Cloud and Aliyun send only texts that they have
// approved before, each under an id of theirs.
type Template struct {
	Key string // code-login; kebab-case
	// Params are what the text says differently to each reader, in the order in which its
	// Chinese names them. Providers take up to 35 characters for each, and no URLs.
	Params []string
	// Text is what follows the signature, with {name} for each of the Params.
	Text fault.Text
	// Optional templates may lack an id: their messages are refused then.
	Optional bool
}

// english ends the key of a template's English text.
const english = ".en"

// registered are the templates by their keys. Only the initialization of packages adds to them.
var registered = map[string]Template{}

// Register adds a template to those whose ids --sms-templates gives, and returns it. It
// panics if the key is taken or the text does not name the parameters in their order. Keep
// the result in a package variable: settings are checked before anything runs.
func Register(t Template) Template {
	at := 0
	for _, name := range t.Params {
		i := strings.Index(t.Text[httpx.Chinese][at:], "{"+name+"}")
		if i < 0 || !strings.Contains(t.Text[httpx.English], "{"+name+"}") {
			panic(fmt.Sprintf("sms: the text of template %q does not name %q, or in another order", t.Key, name))
		}
		at += i + len(name)
	}
	if _, taken := registered[t.Key]; taken || t.Key == "" {
		panic(fmt.Sprintf("sms: template %q is registered twice", t.Key))
	}
	registered[t.Key] = t
	return t
}

// Templates returns the registered templates by their keys.
func Templates() map[string]Template { return maps.Clone(registered) }

// Message fills the template in, with a value for each of its parameters. The caller adds the
// message's id and phone.
func (t Template) Message(signature string, lang httpx.Language, values ...string) Message {
	m := Message{Template: t.Key}
	if lang == httpx.English {
		m.Template += english
	}
	if len(values) != len(t.Params) {
		panic(fmt.Sprintf("sms: template %q has %d parameters, not %d", t.Key, len(t.Params), len(values)))
	}
	pairs := make([]string, 0, 2*len(values))
	for i, value := range values {
		m.Params = append(m.Params, Param{t.Params[i], value})
		pairs = append(pairs, "{"+t.Params[i]+"}", value)
	}
	text := strings.NewReplacer(pairs...).Replace(t.Text[lang]) // in one pass: a value may contain {name}
	m.Text = Signed(signature, lang, text)
	return m
}

// Signed is a text that begins with the shop's name, as carriers want it.
func Signed(signature string, lang httpx.Language, text string) string {
	if lang == httpx.English {
		return "[" + signature + "] " + text
	}
	return "【" + signature + "】" + text
}

// TemplateIDs are a provider's ids by the keys of templates.
type TemplateIDs map[string]string

// Of returns the id of a message's text, or "". Texts in English and those for phones outside
// China, for which providers want templates of another kind, have the key with .en where
// there is one. What is a provider's id itself, as an operator gives it with a text of the
// shop's own, stays as it is.
func (ids TemplateIDs) Of(m Message) string {
	key, inEnglish := strings.CutSuffix(m.Template, english)
	if inEnglish || !strings.HasPrefix(m.Phone, "+86") {
		if id := ids[key+english]; id != "" {
			return id
		}
	}
	if ownID.MatchString(m.Template) {
		return m.Template
	}
	return ids[key]
}

// ownID is the form of Aliyun's ids and of Tencent Cloud's.
var ownID = regexp.MustCompile(`^(SMS_)?[0-9]+$`)

// parseTemplates parses --sms-templates and requires an id of every template that is not
// optional.
func parseTemplates(given []string) (TemplateIDs, error) {
	ids, known := TemplateIDs{}, Templates()
	for _, pair := range given {
		key, id, ok := strings.Cut(pair, "=")
		if _, has := known[strings.TrimSuffix(key, english)]; !has {
			return nil, fmt.Errorf("must be like code-login=SMS_123456,code-register=SMS_123457; %q is none of %s", key, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if !ok || id == "" || ids[key] != "" {
			return nil, fmt.Errorf("must give one id for %s, like %s=SMS_123456", key, key)
		}
		ids[key] = id
	}
	var missing []string
	for key, t := range known {
		if !t.Optional && ids[key] == "" {
			missing = append(missing, key)
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		return nil, fmt.Errorf("lacks the ids of %s: register their texts with the provider, which the handbook lists under \"Channels\", and give key=id for each", strings.Join(missing, ", "))
	}
	return ids, nil
}
