/* Frames between server, PHP host and PHP workers. Generated from crates/wire/src/frames.rs; do not edit.
   MILLRACE_UPDATE=1 cargo test -p millrace-wire frames_h  writes it again. */
#ifndef MILLRACE_FRAMES_H
#define MILLRACE_FRAMES_H

/* Version of all that is defined here; the host says it in READY (`protocol=`), the scoreboard in its head. */
#define MR_PROTOCOL 9u
/* Bytes of a frame header. */
#define MR_HEADER_BYTES 8u
/* Server to worker: run a script. */
#define MR_KIND_REQUEST 1u
/* Worker to server: status and fields of the answer. extra: status code. */
#define MR_KIND_HEAD 16u
/* Worker to server: content of the answer. */
#define MR_KIND_BODY 17u
/* Worker to server: the answer is complete. */
#define MR_KIND_END 18u
/* Worker to server: can take a request again, after an END without FLAG_READY. */
#define MR_KIND_READY 19u
/* Worker or host to server: a message for the error log. extra: syslog priority. */
#define MR_KIND_LOG 20u
/* Worker to server: what the script says to the page cache, in the grammar of the header of that name. extra: NOTE_*. */
#define MR_KIND_NOTE 21u
/* Worker to server, before HEAD: fields for 103 Early Hints, at once. Payload as HEAD's, without a reason. extra: 103. */
#define MR_KIND_EARLY 22u
/* Worker to server, before its first request: a persistent worker's script has come to its loop (FLAG_READY), or has ended before that (FLAG_FAILED). Payload: why it has ended. */
#define MR_KIND_HANDLER 23u
/* Server to host: fork a worker; its socket is attached. Payload: u32 slot. */
#define MR_CONTROL_SPAWN 1u
/* Server to host: end when all workers have ended. No payload. */
#define MR_CONTROL_RETIRE 2u
/* Server to host: say where a worker is, by TRACED; with FLAG_LET_GO: get it out of what it waits for. Payload: u32 slot. */
#define MR_CONTROL_TRACE 3u
/* Server to host: report PHP's settings and opcache by LOOKED. No payload. */
#define MR_CONTROL_LOOK 4u
/* Host to server: PHP is started. Payload: lines key=value. */
#define MR_CONTROL_READY 16u
/* Host to server: PHP did not start, the host ends. Payload: the message. */
#define MR_CONTROL_FAILED 17u
/* Host to server: a worker runs. Payload: u32 slot, u32 process id. */
#define MR_CONTROL_STARTED 18u
/* Host to server: a worker ended. Payload: u32 slot, u32 process id, i32 wait status, u64 greatest resident size in KiB, then what it left about its crash, as TRACED's text. */
#define MR_CONTROL_EXITED 19u
/* Host to server: a message for the error log. extra: syslog priority. */
#define MR_CONTROL_LOG 20u
/* Host to server: where a worker is. Payload: u32 slot, u32 process id, u64 sequence of the request, then lines of text: first what it waits for, which may be empty, then a line for each PHP frame, the innermost first. */
#define MR_CONTROL_TRACED 21u
/* Host to server: PHP's settings and opcache as they are now. Payload: lines, each a JSON object; what could not be found out is left out. */
#define MR_CONTROL_LOOKED 22u
/* REQUEST: the body follows the variables. */
#define MR_FLAG_BODY_INLINE 1u
/* REQUEST: the body is in a file, attached to the first byte of the frame, from offset 0. */
#define MR_FLAG_BODY_DESCRIPTOR 2u
/* REQUEST: sent ahead to a worker that is still busy. It is run only if the worker can take it: SLOT_OFFERED. */
#define MR_FLAG_OFFERED 4u
/* REQUEST: the script starts from its beginning, not in an image of its boot (php.rewind). */
#define MR_FLAG_ORDINARY 8u
/* REQUEST: it is run again to compare its responses: the worker ends it before it changes anything, with FLAG_ABORTED. */
#define MR_FLAG_AGAIN 16u
/* REQUEST: a worker whose image does not fit may decline it (FLAG_DECLINED): another worker gets it. */
#define MR_FLAG_MAY_DECLINE 32u
/* REQUEST: no image is made of its boot: the worker is kept for requests that fit no image. */
#define MR_FLAG_NO_IMAGE 64u
/* END: the worker takes the next request now. */
#define MR_FLAG_READY 1u
/* END, READY: the worker ends now and takes no request any more. */
#define MR_FLAG_EXITING 2u
/* END: a fatal error ended the script. */
#define MR_FLAG_FAILED 4u
/* END: the client had gone, the script was aborted. */
#define MR_FLAG_ABORTED 8u
/* END: the request began in an image of its boot. */
#define MR_FLAG_REWOUND 16u
/* END: as far as the worker knows, the request has changed nothing outside of its process, so it can be run again to be compared. */
#define MR_FLAG_REPEATABLE 32u
/* END: the request does not fit the image that the worker had. */
#define MR_FLAG_MISFIT 64u
/* END, without a HEAD: so the worker has not run it, and has kept its image. */
#define MR_FLAG_DECLINED 128u
/* TRACE: the time of the worker's request is up; no TRACED comes. Programs that it waits for are asked to end. */
#define MR_FLAG_LET_GO 1u
/* TRACE, with FLAG_LET_GO: its time of grace is nearly over, too; those programs are killed. */
#define MR_FLAG_AT_LAST 2u
/* NOTE: tags of the page, `Millrace-Tag`. */
#define MR_NOTE_TAG 1u
/* NOTE: what to purge, `Millrace-Purge`. Sent when the script says it and again before END and READY. */
#define MR_NOTE_PURGE 2u
/* NOTE: how the page may be kept, `Millrace-Cache-Control`. The last one of an answer holds. */
#define MR_NOTE_CONTROL 3u
/* NOTE: what the script or the worker has found out about the visitor: crates/pages/src/visitors/report.rs. */
#define MR_NOTE_VISITOR 4u
/* NOTE: which call of a script forbids to store its page: crates/pages/src/judge/grounds.rs. */
#define MR_NOTE_ORIGIN 5u
/* NOTE: which files scripts of the site consist of: crates/server/src/cache/code.rs. */
#define MR_NOTE_CODE 6u
/* NOTE: which cookies the script has looked for: crates/pages/src/looked.rs. */
#define MR_NOTE_COOKIES 7u
/* NOTE: which fields of the request the script has read: crates/pages/src/read_fields.rs. */
#define MR_NOTE_FIELDS 8u
/* NOTE: whether the page depends on what is in its visitor's cart: crates/pages/src/carts.rs. */
#define MR_NOTE_CART 9u
/* Bytes of the fixed start of a REQUEST: u64 sequence, u64 body length, u32 variables, u32 bytes of variables. */
#define MR_REQUEST_BYTES 24u
/* Bytes before the name of a variable: u16 name length, u16 zero, u32 value length. */
#define MR_VARIABLE_BYTES 8u
/* Most bytes of variables in a REQUEST. */
#define MR_VARIABLES_MAX 1048576u
/* Most bytes of a body inside a REQUEST; larger ones go by descriptor. */
#define MR_INLINE_BODY_MAX 65536u
/* Most bytes of a HEAD's payload. */
#define MR_HEAD_MAX 1048576u
/* Most bytes of a BODY's payload. */
#define MR_BODY_MAX 1048576u
/* Most content that a worker sends in answer to a HEAD request: whether the answer to GET is compressed depends on its start, its length is known if it is no longer. */
#define MR_BODY_OF_HEAD_MAX 65536u
/* Bytes of END's and READY's payload: u64 peak memory in bytes, u64 class of the image that the request began in: a digest of its script and of the names in its key; 0: in none. */
#define MR_END_BYTES 16u
/* Most bytes of a LOG's payload. */
#define MR_LOG_MAX 65536u
/* Most bytes of a NOTE's payload. */
#define MR_NOTE_MAX 65536u
/* Most bytes of a HANDLER's payload. */
#define MR_HANDLER_MAX 4096u
/* Most bytes of a control message. */
#define MR_CONTROL_MAX 32768u
/* Most bytes of text about where a worker is, or was when it crashed. */
#define MR_TRACE_MAX 4096u
/* First word of the scoreboard. */
#define MR_SCOREBOARD_MAGIC 1297240898u
/* Bytes of the scoreboard's head: u32 magic, u32 PROTOCOL, u32 bytes a slot, u32 slots. */
#define MR_SCOREBOARD_HEAD 128u
/* u64 in the scoreboard's head, written by workers: CLOCK_MONOTONIC in milliseconds when a persistent worker has begun to end for another to boot in its place; 0 when one has booted. They take turns. */
#define MR_SCOREBOARD_TURN 16u
/* u64 in the scoreboard's head: offset of the figures of rewound workers, FIGURES_BYTES a slot, behind the slots; 0: there are none. */
#define MR_SCOREBOARD_FIGURES 24u
/* SCOREBOARD_OFF_MOST u64 in the scoreboard's head, written by the server: classes of images that are not to be used; 0: none; SCOREBOARD_OFF_ALL: all. */
#define MR_SCOREBOARD_OFF 32u
/* Number of SCOREBOARD_OFF. */
#define MR_SCOREBOARD_OFF_MOST 4u
/* u64 in the scoreboard's head, written by the server before it sends a request: number of orders to purge pages, by anyone. With a higher one, something that an image has read may have changed. */
#define MR_SCOREBOARD_PURGES 64u
/* u64 in the scoreboard's head, written by workers: one of RESTART_*, why opcache wants to restart; 0: it does not. */
#define MR_SCOREBOARD_RESTART 72u
/* A script has called `opcache_reset()`. */
#define MR_RESTART_RESET 1u
/* opcache's memory is full. */
#define MR_RESTART_MEMORY 2u
/* opcache has no key left. */
#define MR_RESTART_KEYS 3u
/* In SCOREBOARD_OFF: images of any class are not to be used. */
#define MR_SCOREBOARD_OFF_ALL 18446744073709551615u
/* Bytes of a slot. */
#define MR_SLOT_BYTES 128u
/* u32: process id of the worker. */
#define MR_SLOT_PID 0u
/* u32: one of STATE_*. */
#define MR_SLOT_STATE 4u
/* u64: sequence of the last REQUEST read completely: stored before the script runs. */
#define MR_SLOT_RECEIVED 8u
/* u64: sequence of the last request whose END is written. */
#define MR_SLOT_FINISHED 16u
/* u64, written by the server: sequence of a request whose client has gone. */
#define MR_SLOT_ABORTED 24u
/* u64: CLOCK_MONOTONIC in milliseconds when the running request was received. */
#define MR_SLOT_STARTED_MS 32u
/* u64: requests served. */
#define MR_SLOT_REQUESTS 40u
/* u64: resident memory in bytes, from time to time. */
#define MR_SLOT_RSS 48u
/* u64: greatest memory of one request so far, bytes (PHP's allocator). */
#define MR_SLOT_PEAK 56u
/* SLOT_OFFERS u64; word i holds offers whose sequence is i modulo SLOT_OFFERS. Written by both by compare-and-swap: twice the sequence of a request that is offered. The worker adds 1 and so takes it, before it runs it; the server puts 0 there and so takes it back; whoever is first has it. */
#define MR_SLOT_OFFERED 64u
/* One more than the requests that are sent ahead: those may be on offer before the worker has come to the one before them, which it is sure to get. */
#define MR_SLOT_OFFERS 4u
/* u64, written by the server: sequence of a request that is to be ended because its time is up. A SIGURG follows. The worker puts 0 there when it does so. */
#define MR_SLOT_TERMINATE 96u
/* u64: age in milliseconds to which the script of the running request has extended its time (`set_time_limit()`); 0: it has not; u64::MAX: no limit. The server decides how much of it is allowed. */
#define MR_SLOT_ASKED_MS 104u
/* Bytes of a slot's figures. The next worker in the slot counts on; it begins without images. */
#define MR_FIGURES_BYTES 9344u
/* u64: images that the worker has now. */
#define MR_FIGURES_IMAGES 0u
/* u64: images made. */
#define MR_FIGURES_MADE 8u
/* u64: requests that began at the point. */
#define MR_FIGURES_REWOUND 16u
/* FIGURES_REASONS u64: requests that ran the ordinary way, by REASON_*. */
#define MR_FIGURES_ORDINARY 24u
/* Number of REASON_*. */
#define MR_FIGURES_REASONS 9u
/* u64: how often the worker has put its memory back. */
#define MR_FIGURES_PUT 96u
/* u64: how long that took in all, nanoseconds. */
#define MR_FIGURES_PUT_NS 104u
/* u64: pages that were copied for it. */
#define MR_FIGURES_PUT_PAGES 112u
/* u64: workers that have ended because their memory could not be put back. */
#define MR_FIGURES_ENDED 120u
/* FIGURES_TEXT_BYTES: why the last point was refused. */
#define MR_FIGURES_REFUSAL 128u
/* FIGURES_TEXT_BYTES: why the last worker has ended. */
#define MR_FIGURES_ENDING 640u
/* Bytes of a text: u64 version, odd while the text is written; u64 CLOCK_MONOTONIC in milliseconds when it was; text that ends with NUL. */
#define MR_FIGURES_TEXT_BYTES 512u
/* FIGURES_KEYS_MOST keys. */
#define MR_FIGURES_KEYS 1152u
/* Maximum number of keys of a slot. Images with the same script and the same names in their keys are counted together. */
#define MR_FIGURES_KEYS_MOST 4u
/* Bytes of a key: u64 images that there are now, u64 requests that began in them, and a text in the remaining bytes: lines, first the script, then what its boot reads, without the values. */
#define MR_FIGURES_KEY_BYTES 2048u
/* Ordinary: the method, or the request has content. */
#define MR_REASON_METHOD 0u
/* Ordinary: the worker has no image yet; it gets too few requests to be worth one, or makes it by this one. */
#define MR_REASON_NO_IMAGE 1u
/* Ordinary: the image was old, or something may have changed. */
#define MR_REASON_OLD 2u
/* Ordinary: what the boot has read of its request is another one in this request. */
#define MR_REASON_KEY 3u
/* Ordinary: the script found a difference between the boot and now. */
#define MR_REASON_LEFT 4u
/* Ordinary: its script comes to no point, or this request did not. */
#define MR_REASON_NO_POINT 5u
/* Ordinary: the last point was refused. */
#define MR_REASON_REFUSED 6u
/* Ordinary: the server wants it to be, to compare (FLAG_ORDINARY). */
#define MR_REASON_COMPARED 7u
/* Ordinary: images of this class are switched off (SCOREBOARD_OFF). */
#define MR_REASON_OFF 8u
/* Nobody's slot. */
#define MR_STATE_FREE 0u
/* The worker is being forked. */
#define MR_STATE_STARTING 1u
/* The worker waits for a request. */
#define MR_STATE_IDLE 2u
/* The worker runs a script. */
#define MR_STATE_RUNNING 3u
/* The answer is complete, the script still runs (fastcgi_finish_request). */
#define MR_STATE_BACKGROUND 4u
/* The worker ends. */
#define MR_STATE_EXITING 5u
/* The PHP file to run before the script; never shown to it. */
#define MR_INJECT_VARIABLE "MILLRACE_INJECT"
/* Cookies that the script gets only if it looks for one of them. */
#define MR_COOKIES_VARIABLE "MILLRACE_COOKIES"
/* Control socket of a host. */
#define MR_CONTROL_DESCRIPTOR 3
/* Scoreboard of a host. */
#define MR_SCOREBOARD_DESCRIPTOR 4

#endif
