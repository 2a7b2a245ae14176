package config

import "github.com/alecthomas/kong"

// Groups are the headings under which --help lists the settings. A command shows
// them in the order in which its settings come.
func Groups() []kong.Group {
	return []kong.Group{
		{Key: "required", Title: "Required (run makes its own):"},
		{Key: "nats", Title: "NATS:"},
		{Key: "addresses", Title: "Addresses:"},
		{Key: "rotation", Title: "Replacing the signing key:"},
		{Key: "logs", Title: "Logs and traces:"},
		{Key: "sale", Title: "Sales:"},
		{Key: "sockets", Title: "WebSockets:"},
		{Key: "conns", Title: "Postgres connections:"},
		{Key: "disk", Title: "Disk and records:"},
		{Key: "alarms", Title: "Alarms:"},
		{Key: "accounts", Title: "Accounts and logins:"},
		{Key: "sms", Title: "SMS:"},
		{Key: "wechat", Title: "WeChat:"},
		{Key: "limits", Title: "Limits and proxies:"},
		{Key: "humancheck", Title: "Human checks:"},
		{Key: "risk", Title: "Blacklist and risk rules:"},
		{Key: "practice", Title: "Practice:"},
		{Key: "stop", Title: "Stopping:"},
	}
}
