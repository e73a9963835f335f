//! More partitions for topics of a running installation.

use super::{fill, installation, read};
use crate::{Settings, StreamError, add_partitions, count_workers};

#[tokio::test]
async fn partitions_are_added_to_topics_of_workers_and_never_taken_away() {
    let settings = installation().await;
    let before = settings.partitions;
    let count = usize::try_from(before.input).unwrap();
    assert_eq!(count_workers(&settings).await.unwrap(), (0, count));
    let names = settings.topic_names();
    fill(&settings, &names.input, 0, &["before"]);
    let more = usize::try_from(before.input.max(before.output)).unwrap() + 3;
    let added = add_partitions(&settings, more).await.unwrap();
    let changed: Vec<&str> = added.iter().map(|count| count.topic.as_str()).collect();
    assert_eq!(changed, [&names.input, &names.output, &names.sessions, &names.metrics]);
    assert!(added.iter().all(|count| count.before < more && count.after == more), "{added:?}");
    for fewer in [1, more] {
        let kept = add_partitions(&settings, fewer).await.unwrap();
        assert!(kept.iter().all(|count| (count.before, count.after) == (more, more)), "{kept:?}");
    }
    fill(&settings, &names.input, i32::try_from(more).unwrap() - 1, &["after"]);
    let mut texts = read(&settings, &names.input, 2).await;
    texts.sort();
    assert_eq!(texts, ["after", "before"]);
    assert_eq!(count_workers(&settings).await.unwrap(), (0, more));

    let elsewhere = Settings { topic_prefix: "nobody.".to_owned(), ..settings };
    let missing = add_partitions(&elsewhere, more).await;
    assert!(matches!(missing, Err(StreamError::NoTopic(_))), "{missing:?}");
}
