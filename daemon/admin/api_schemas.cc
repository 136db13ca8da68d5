#include <nlohmann/json.hpp>

#include "daemon/admin/openapi.h"

namespace pulsewheel {
namespace {

constexpr const char* kSchemas = R"json({
  "Error": {
    "type": "object", "required": ["error"],
    "properties": {"error": {
      "type": "object", "required": ["code", "message"],
      "properties": {"code": {"type": "string"}, "message": {"type": "string"}}},
      "problems": {"type": "array", "items": {"type": "string"},
                   "description": "One by one, of a configuration"}}
  },
  "Text": {"type": "string"},
  "Time": {"type": ["integer", "null"], "description": "Unix milliseconds; null: not known"},
  "State": {"type": "string", "enum": ["online", "offline", "unknown"]},
  "Encoded": {"type": "string", "pattern": "^([A-Za-z0-9._~-]|%[0-9A-F]{2})*$",
              "description": "Bytes, percent-encoded"},
  "Version": {
    "type": "object", "required": ["name", "version", "commit", "compiler", "build_type"],
    "properties": {"name": {"type": "string"}, "version": {"type": "string"},
                   "commit": {"type": "string"}, "compiler": {"type": "string"},
                   "build_type": {"type": "string"}}
  },
  "Status": {
    "type": "object",
    "required": ["phase", "version", "epoch", "uptime_s", "restart_grace_s", "shards", "tick_s",
                 "connections", "users", "packets", "edges", "lateness_s", "loop_delay_s",
                 "stalls", "redis"],
    "properties": {
      "phase": {"type": "string", "enum": ["starting", "serving", "draining"]},
      "version": {"type": "string"},
      "epoch": {"type": "integer"},
      "uptime_s": {"type": "number"},
      "restart_grace_s": {"type": "number"},
      "shards": {"type": "integer"},
      "tick_s": {"type": "number"},
      "connections": {"type": "integer"},
      "users": {"type": "object", "required": ["online", "lingering", "offline_remembered"]},
      "packets": {"type": "object", "required": ["logins", "keepalives", "messages"]},
      "edges": {"type": "object", "required": ["last_seq", "online", "offline", "dropped"]},
      "lateness_s": {"type": "object", "required": ["min", "max"]},
      "loop_delay_s": {"type": "object", "required": ["max"]},
      "stalls": {"type": "integer"},
      "redis": {"type": "object", "required": ["mode"]}
    }
  },
  "Session": {
    "type": "object",
    "required": ["id", "shard", "device", "lingering", "login_at_ms", "last_seen_ms",
                 "deadline_ms", "timeout_ms"],
    "properties": {
      "id": {"type": "string"},
      "shard": {"type": "integer"},
      "device": {"$ref": "#/components/schemas/Encoded"},
      "lingering": {"type": "boolean", "description": "Its connection has closed"},
      "login_at_ms": {"type": "integer"},
      "last_seen_ms": {"type": "integer", "description": "Its last packet"},
      "deadline_ms": {"type": "integer", "description": "When its silence is final"},
      "timeout_ms": {"type": "integer", "description": "As negotiated with the client"}
    }
  },
  "User": {
    "type": "object", "required": ["uid", "state", "since_ms", "last_seen_ms", "sessions"],
    "properties": {
      "uid": {"$ref": "#/components/schemas/Encoded"},
      "state": {"$ref": "#/components/schemas/State"},
      "since_ms": {"$ref": "#/components/schemas/Time"},
      "last_seen_ms": {"$ref": "#/components/schemas/Time"},
      "sessions": {"type": "array", "items": {"$ref": "#/components/schemas/Session"}}
    }
  },
  "UserLine": {
    "type": "object",
    "required": ["uid", "state", "since_ms", "last_seen_ms", "sessions", "devices"],
    "properties": {
      "uid": {"$ref": "#/components/schemas/Encoded"},
      "state": {"$ref": "#/components/schemas/State"},
      "since_ms": {"$ref": "#/components/schemas/Time"},
      "last_seen_ms": {"$ref": "#/components/schemas/Time"},
      "sessions": {"type": "integer", "description": "How many, lingering ones included"},
      "devices": {"type": "array", "items": {"$ref": "#/components/schemas/Encoded"},
                  "description": "The labels of the sessions that have one"}
    }
  },
  "QueryRequest": {
    "type": "object", "required": ["uids"],
    "properties": {"uids": {"type": "array", "maxItems": 10000, "items": {"type": "string"},
                            "description": "Percent-encoded"}},
    "example": {"uids": ["alice", "bob%2Fphone", "%00%FF"]}
  },
  "QueryAnswer": {
    "type": "object", "required": ["users"],
    "properties": {"users": {"type": "array", "items": {"$ref": "#/components/schemas/UserLine"},
                             "description": "As many as uids, in their order"}}
  },
  "UserPage": {
    "type": "object", "required": ["users", "next_cursor"],
    "properties": {
      "users": {"type": "array", "items": {"$ref": "#/components/schemas/UserLine"}},
      "next_cursor": {"type": ["string", "null"], "description": "null: this was the last page"}
    }
  },
  "KickAnswer": {
    "type": "object", "required": ["uid", "kicked_sessions"],
    "properties": {"uid": {"$ref": "#/components/schemas/Encoded"},
                   "kicked_sessions": {"type": "integer",
                                       "description": "0: the user only lingered"}}
  },
  "Hold": {
    "type": ["object", "null"], "required": ["since_ms", "until_ms"],
    "properties": {"since_ms": {"type": "integer"},
                   "until_ms": {"type": "integer", "description": "When it ends by itself"}}
  },
  "HoldRequest": {
    "type": "object",
    "properties": {"for_ms": {"type": "integer",
                              "description": "At most 604800000, a week; usually an hour"}},
    "example": {"for_ms": 600000}
  },
  "HoldAnswer": {
    "allOf": [{"$ref": "#/components/schemas/Hold"}],
    "type": "object", "required": ["uid"],
    "properties": {"uid": {"$ref": "#/components/schemas/Encoded"}}
  },
  "ReleaseAnswer": {
    "type": "object", "required": ["uid", "held_ms"],
    "properties": {"uid": {"$ref": "#/components/schemas/Encoded"},
                   "held_ms": {"type": "integer"}}
  },
  "DrainAnswer": {
    "type": "object", "required": ["connections", "window_ms"],
    "properties": {"connections": {"type": "integer", "description": "That leave now"},
                   "window_ms": {"type": "integer"}}
  },
  "Change": {
    "type": "object", "required": ["key", "before", "after"],
    "properties": {"key": {"type": "string"}, "before": {"type": "string"},
                   "after": {"type": "string"}}
  },
  "ReloadAnswer": {
    "type": "object", "required": ["changed", "needs_restart"],
    "properties": {
      "changed": {"type": "array", "items": {"$ref": "#/components/schemas/Change"}},
      "needs_restart": {"type": "array", "items": {"$ref": "#/components/schemas/Change"},
                        "description": "These stay as they were"}
    }
  },
  "ExplainedSession": {
    "allOf": [{"$ref": "#/components/schemas/Session"}],
    "type": "object", "required": ["address", "packet_age_ms", "remaining_ms", "wheel"],
    "properties": {
      "address": {"type": ["string", "null"], "description": "null: no connection any more"},
      "packet_age_ms": {"type": "integer"},
      "remaining_ms": {"type": "integer",
                       "description": "Until the deadline; of a held user, from the release on"},
      "wheel": {"type": ["object", "null"], "required": ["level", "slot"],
                "description": "Where the deadline waits; null: it is being handled"}
    }
  },
  "EventPage": {
    "type": "object", "required": ["events", "cursor", "more"],
    "properties": {
      "events": {"type": "array", "items": {"type": "object"},
                 "description": "Edges as in the event log; {gap: true}, {resync: true}"},
      "cursor": {"type": "string", "description": "Where to ask on"},
      "more": {"type": "boolean", "description": "There are more of them already"}
    }
  },
  "Edge": {
    "type": "object", "required": ["seq", "kind", "reason", "at_ms", "last_seen_ms"],
    "properties": {
      "seq": {"type": ["integer", "null"], "description": "null: too old to be remembered"},
      "kind": {"type": "string", "enum": ["online", "offline"]},
      "reason": {"type": "string",
                 "enum": ["login", "timeout", "logout", "disconnect", "kicked", "shutdown"]},
      "at_ms": {"type": "integer"},
      "last_seen_ms": {"$ref": "#/components/schemas/Time"}
    }
  },
  "Explanation": {
    "type": "object",
    "required": ["uid", "state", "since_ms", "last_seen_ms", "summary", "home_shard", "now_ms",
                 "hold", "sessions", "edges"],
    "properties": {
      "uid": {"$ref": "#/components/schemas/Encoded"},
      "state": {"$ref": "#/components/schemas/State"},
      "since_ms": {"$ref": "#/components/schemas/Time"},
      "last_seen_ms": {"$ref": "#/components/schemas/Time"},
      "summary": {"type": "string", "description": "Why, in one sentence"},
      "home_shard": {"type": "integer"},
      "now_ms": {"type": "integer"},
      "hold": {"$ref": "#/components/schemas/Hold"},
      "sessions": {"type": "array", "items": {"$ref": "#/components/schemas/ExplainedSession"}},
      "edges": {"type": "array", "items": {"$ref": "#/components/schemas/Edge"},
                "description": "The newest first; those that are still known"}
    }
  },
  "WheelLevel": {
    "type": "object", "required": ["ticks_per_slot", "hand", "slots"],
    "properties": {
      "ticks_per_slot": {"type": "integer"},
      "hand": {"type": "integer", "description": "The slot at which it stands"},
      "slots": {"type": "array", "items": {"type": "integer"},
                "description": "How many deadlines are filed in each"}
    }
  },
  "Wheel": {
    "type": "object", "required": ["tick_s", "levels", "shards"],
    "properties": {
      "tick_s": {"type": "number"},
      "levels": {"type": "array", "items": {"$ref": "#/components/schemas/WheelLevel"},
                 "description": "Of all shards together; the hand is that of the one furthest on"},
      "shards": {"type": "array", "items": {
        "type": "object", "required": ["shard", "tick", "clock_tick", "armed", "levels"],
        "properties": {
          "shard": {"type": "integer"},
          "tick": {"type": "integer", "description": "Where the hand stands"},
          "clock_tick": {"type": "integer",
                         "description": "Now; the hand catches up when something is due"},
          "armed": {"type": "integer"},
          "levels": {"type": "array", "items": {"$ref": "#/components/schemas/WheelLevel"}}
        }}}
    }
  },
  "OpenApi": {"type": "object", "required": ["openapi", "info", "paths", "components"]}
})json";

}  // namespace

const nlohmann::json& api_schemas() {
  static const nlohmann::json schemas = nlohmann::json::parse(kSchemas);
  return schemas;
}

}  // namespace pulsewheel
