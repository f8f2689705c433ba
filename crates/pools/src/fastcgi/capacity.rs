//! Finds out how many connections a backend takes at once, by a FastCGI query. php-fpm does not report its
//! `pm.max_children`; Millrace observes it ([`super::backend::Backend::see_most`]). The query also shows whether a
//! backend is up.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use millrace_wire::fastcgi::{get_values, is_values_result, max_connections};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::backends::FastcgiShared;
use super::connection::{FastcgiStream, connect};

/// Maximum time for the response.
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum length of a response, bytes.
const ANSWER_MAX: u64 = 4096;

/// Asks all backends before the first request arrives; waits for the responses, but not for long.
pub fn ask_all(shared: &Arc<FastcgiShared>) {
    let asked = shared.clone();
    let asking = on_a_thread(async move || {
        for backend in 0..asked.backends.len() {
            if let Err(error) = ask(&asked, backend).await {
                let address = &asked.backends[backend].address;
                asked.log.warn(format_args!(
                    "php-fpm at {address}: {error}; PHP requests get 503 until it accepts connections"
                ));
            }
        }
    });
    asking.map(JoinHandle::join);
}

/// Finds out whether a backend that is down takes connections again, while another one serves the requests.
pub fn probe(shared: Arc<FastcgiShared>, backend: usize) {
    on_a_thread(async move || {
        let began = shared.now();
        match ask(&shared, backend).await {
            Ok(()) => shared.tell(backend, shared.backends[backend].accepts()),
            Err(error) => {
                let change = shared.backends[backend].refuses(began, shared.now(), &error.to_string());
                shared.tell(backend, change);
            }
        }
    });
}

/// Runs `work` on its own thread: the caller's may already have a runtime, or must not block.
fn on_a_thread(work: impl AsyncFnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    let run = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(work());
    };
    std::thread::Builder::new().name("ask-fastcgi".to_owned()).spawn(run).ok()
}

/// Asks a backend how many connections it takes at once.
///
/// # Errors
/// The backend takes no connections.
pub async fn ask(shared: &FastcgiShared, backend: usize) -> io::Result<()> {
    let backend = &shared.backends[backend];
    let stream = connect(&backend.address, shared.settings.fastcgi_connect_timeout).await?;
    backend.note_process(&stream);
    let answer = match stream {
        FastcgiStream::Unix(stream) => tokio::time::timeout(PATIENCE, question(stream)).await,
        FastcgiStream::Tcp(stream) => tokio::time::timeout(PATIENCE, question(stream)).await,
    };
    if let Some(most) = answer.ok().and_then(|answer| max_connections(&answer)) {
        backend.set_most(most);
    }
    Ok(())
}

/// The bytes of the response; fewer if the connection is closed before.
async fn question(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin) -> Vec<u8> {
    let mut answer = Vec::new();
    if stream.write_all(&get_values()).await.is_ok() {
        // php-fpm since 8.2.13 keeps the connection open (bug 76922), and a process with it.
        let mut stream = stream.take(ANSWER_MAX);
        while !is_values_result(&answer)
            && matches!(stream.read_buf(&mut answer).await, Ok(length) if length > 0)
        {}
    }
    answer
}

#[cfg(test)]
mod tests {
    use millrace_wire::fastcgi::values_result;

    use super::*;

    #[test]
    fn the_connection_need_not_be_closed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            for number in [Some(7), None] {
                let (ours, mut theirs) = tokio::io::duplex(1024);
                theirs.write_all(&values_result(number)).await.unwrap();
                let answer = tokio::time::timeout(Duration::from_secs(60), question(ours)).await;
                assert_eq!(max_connections(&answer.expect("it stays open")), number);
            }
        });
    }
}
